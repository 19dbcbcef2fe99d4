"""The flow log among random clients: what it says is what the clients know, for every schedule."""

from collections import Counter

import pytest

from bench import contract as n
from core.flow_log import names
from core.flow_log.names import FlowLog
from shm.contract.flow_log.schema import OUTCOMES
from shm.contract.flow_log.setup import FlowLogSetup, SetFlowLog
from shm.statistics.stats import COUNTERS
from tests.model.speaker import Link
from tests.model.tally import Message
from tests.model.worker import Worker
from tests.model.world import World
from tests.support.beds.schedule import SEEDS

MOVES = 150
GROUP = 25


class Whole(Worker):
    """Sends whole messages, so that a receiver's word on each of them counts."""

    def send(self, link: Link, message: Message, streaming: bool) -> None:
        assert isinstance(self.log, list)
        self.log.append(("sent", self.index, message.number))
        super().send(link, message, False)


class Recorded(World):
    """A world whose core records all deliveries."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, workers=2 + seed % 2, deaths=False)
        self.core.configure(SetFlowLog(FlowLogSetup(sampling=1)))

    def _born(self, index: int, generation: int) -> Worker:
        return Whole(index, generation, self.memory, self.ledger, self.log)

    def rows(self) -> dict[str, list[int]]:
        """What the recorder would read, by column."""
        self.core.plane(FlowLog).close()
        columns = n.FlowColumns(4096)
        n.FlowReader(self.memory.flow).read(columns, 0)
        widths = {"treatment": "b", "outcome": "b", "kind": "b", "worker": "h", "seq": "q", "to": "i", "from": "i"}
        rows: dict[str, list[int]] = {
            name: memoryview(columns.buffers[name]).cast(width)[: columns.count].tolist()
            for name, width in widths.items()
        }
        for name in ("to", "from"):
            ids = columns.ids(name)
            rows[name] = [ids[code] for code in rows[name]]
        return rows


@pytest.mark.parametrize("first", range(0, min(SEEDS, 100), GROUP))
def test_totals_are_those_of_the_clients(first: int) -> None:
    """A row for each copy; one for each message that is not multicast; outcomes as receivers gave them."""
    for seed in range(first, first + GROUP):
        world = Recorded(seed)
        world.run(MOVES)
        rows = world.rows()
        check(world, rows, f"seed {seed}")


def check(world: Recorded, rows: dict[str, list[int]], seed: str) -> None:
    page = n.StatsPage(world.memory.control, n.stats_offset(len(world.workers)))
    delivered = rows["kind"].count(0)
    assert delivered == page.get(COUNTERS["forwarded"].place), seed
    assert page.get(COUNTERS["flow_records"].place) == len(rows["kind"]), seed
    sent = [world.ledger.messages[one[2]] for one in world.log if one[0] == "sent"]
    assert len(rows["kind"]) - rows["treatment"].count(0) == sum(not one.multicast for one in sent), seed
    asked = [one for one in world.ledger.messages if not one.presettled]
    given = Counter(state for one in asked for state in (*one.outcomes, *one.pending))
    told = Counter(OUTCOMES[outcome] for outcome in rows["outcome"])
    for state, outcome in ((n.S_ACCEPTED, "accepted"), (n.S_REJECTED, "rejected"), (n.S_MODIFIED, "modified")):
        refused = sum(
            kind == 2 and OUTCOMES[one] == outcome for kind, one in zip(rows["kind"], rows["outcome"], strict=True)
        )
        assert told[outcome] - refused == given[state], f"{seed}: {outcome}"
    assert told["released"] >= given[n.S_RELEASED], seed
    assert not told["aborted"], seed
    assert all(rows["from"]), seed
    assert all(to or kind for to, kind in zip(rows["to"], rows["kind"], strict=True)), seed
    for worker in set(rows["worker"]):
        numbers = [seq for seq, one in zip(rows["seq"], rows["worker"], strict=True) if one == worker]
        assert numbers == list(range(1, len(numbers) + 1)), seed


def test_links_are_named_anew_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch of users and hosts is no long step; all links have their names in the end."""
    monkeypatch.setattr(names, "PORTION", 1)
    world = Recorded(2)
    for worker in world.workers:
        worker.connect()
        world.attach()
    for _ in range(9):
        world.step()
        world.attach()
    plane, named = world.core.plane(FlowLog), []
    attached = plane.attached
    monkeypatch.setattr(plane, "attached", lambda link: (named.append(link.identity), attached(link)))
    world.core.configure(SetFlowLog(FlowLogSetup(sampling=1, clients=False)))
    for done, link in enumerate(world.core.links.entries()):
        assert (len(named), plane.restless) == (done, True), link
        plane.step(0)
    assert sorted(named) == sorted(link.identity for link in world.core.links.entries()) != []
    assert not plane.restless
