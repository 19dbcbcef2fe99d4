"""What the core shows: the busiest addresses, the rest as one number, the newest connections."""

from collections.abc import Iterator

import pytest

from bench import contract as n
from core.forwarder.link_terms import LinkTerms
from core.links.base import Base
from core.process.display import PERIOD_NS, ROWS, Display, spelling
from shm.contract.control import Setup
from shm.contract.payloads import ConnectionOpened
from shm.statistics import board
from shm.statistics.board import AddressRow, Outcomes
from tests.model.memory import Memory

SENDER = 0
HANDLE = 9 << 32  # a worker's, of a delivery


class Bed:
    """A core whose one worker has a receiver for each address, and an anonymous sender at link 0."""

    def __init__(self, addresses: int) -> None:
        memory = Memory(1, n.RING_CAPACITY, 1 << 20)
        self.rings, control, arenas = memory.rings, memory.control, memory.arenas
        base = Base(Setup("core", 1, 1, "/none", "me", "0", 1, [-1]), memory, b"seed")
        self.forwarder, self.addresses, self.connections = base.forwarder, base.addresses, base.connections
        self.board = n.Board(control, n.board_offset(1))
        self.display = Display(base, self.board)
        self.actions = n.Producer(self.rings, n.action_ring_offset(0))
        self.work = n.Consumer(self.rings, n.work_ring_offset(0))
        self.arena = n.ArenaOwner(arenas[0])
        self.now = 0
        for i in range(addresses):
            self.receive(i, f"queue.{i}")

    def receive(self, number: int, text: str) -> None:
        handle = self.addresses.resolve(text).handle
        assert self.forwarder.add_link(0, 2 * number + 1, 1, LinkTerms(True, handle, 10))
        assert self.forwarder.add_link(0, 2 * number + 2, 1, LinkTerms(False, handle, 10))

    def send(self, number: int, count: int = 1) -> None:
        """Presettled messages to the address of that number, each done at once."""
        for _ in range(count):
            block = self.arena.write(b"m")
            assert block is not None
            self.act(type=n.A_DELIVER, flags=n.F_COMPLETE | n.F_SETTLED, link=2 * number + 2, link_gen=1, block=block)
            sent = next(r for r in self.heard() if r["type"] == n.W_SEND)
            self.act(type=n.A_DONE, delivery=sent["peer"])
            for record in self.heard():
                self.arena.free_chain(record["block"])

    def deliver(self, number: int, state: int) -> None:
        """A message to the address of that number, settled with that state unless it is 0."""
        block = self.arena.write(b"m")
        assert block is not None
        link = {"link": 2 * number + 2, "link_gen": 1}
        self.act(type=n.A_DELIVER, flags=n.F_COMPLETE, delivery=HANDLE, block=block, **link)
        sent = next(r for r in self.heard() if r["type"] == n.W_SEND)
        if state:
            self.act(type=n.A_UPDATE, flags=n.F_SETTLED, delivery=sent["peer"], state=state)
            for record in self.heard():
                self.arena.free_chain(record["block"])

    def poll(self) -> None:
        """Look at all links."""
        while not self.forwarder.look():
            pass

    def act(self, **fields: int) -> None:
        assert self.actions.push(n.pack(**fields))
        self.actions.publish()
        self.forwarder.step(1)

    def heard(self) -> Iterator[dict[str, int]]:
        records = []
        while (record := self.work.pop()) is not None:
            records.append(n.unpack(record))
        self.work.give_back()
        return iter(records)

    def shown(self) -> board.Board:
        """The board after one more whole pass."""
        self.now += 2 * PERIOD_NS
        while self.display.step(self.now) != PERIOD_NS:
            self.now += 1
        content = board.decode(self.board.read())
        assert content is not None
        return content


def test_every_address_is_shown_while_there_is_room() -> None:
    """With its distribution, receivers, senders and deliveries, the busiest first."""
    bed = Bed(3)
    bed.send(1, 5)
    bed.send(2, 2)
    shown = bed.shown()
    assert [(row.address, row.deliveries) for row in shown.addresses] == [
        ("queue.1", 5),
        ("queue.2", 2),
        ("queue.0", 0),
    ]
    assert shown.addresses[0] == board.AddressRow("queue.1", "balanced", 5, 1, 1)
    assert shown.other == 0


def test_the_busiest_are_shown_and_the_rest_is_one_number() -> None:
    """3,000 addresses take several steps and leave 50 rows; each delivery is in a row or in the rest."""
    bed = Bed(3000)
    for number in range(2900, 2960):
        bed.send(number, 2 if number < 2950 else 1)
    assert bed.display.step(5 * PERIOD_NS) < PERIOD_NS
    shown = bed.shown()
    assert {row.address for row in shown.addresses} == {f"queue.{i}" for i in range(2900, 2950)}
    assert (sum(row.deliveries for row in shown.addresses), shown.other) == (100, 10)


def test_a_step_makes_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages wait for a step; planes and the writing have steps of their own."""
    bed = Bed(60)
    made: list[int] = [0]
    row = bed.display._row

    def counted(handle: int) -> AddressRow | None:
        made[-1] += 1
        return row(handle)

    monkeypatch.setattr(bed.display, "_row", counted)
    while bed.display.step(5 * PERIOD_NS) != PERIOD_NS:
        made.append(0)
    assert (sum(made), max(made)) == (board.ADDRESSES, ROWS)


def test_the_rest_never_shrinks_and_old_fame_fades() -> None:
    """An address leaves its row when others become busier: from then on it counts for the rest."""
    bed = Bed(60)
    for number in range(50):
        bed.send(number, 3)
    before = bed.shown()
    assert before.other == 0
    seen = before.other
    for _ in range(60):
        for number in range(10, 60):
            bed.send(number)
        after = bed.shown()
        assert after.other >= seen
        seen = after.other
    assert {row.address for row in after.addresses} == {f"queue.{i}" for i in range(10, 60)}
    bed.send(0)
    assert bed.shown().other == seen + 1


def test_generated_names_are_never_shown() -> None:
    """A temporary address counts for the rest: as a label it would be a new series for every client."""
    bed = Bed(0)
    bed.receive(0, "amqp:/_topo/0/me/temp.Xyz")
    bed.send(0, 4)
    shown = bed.shown()
    assert shown.addresses == []
    assert shown.other == 4


def test_outcomes_and_load_are_those_of_the_address() -> None:
    """As the last poll of the links found them; presettled copies have no outcome."""
    bed = Bed(2)
    bed.shown()
    for state in (n.S_ACCEPTED, n.S_ACCEPTED, n.S_REJECTED, n.S_RELEASED, n.S_MODIFIED, 0, 0):
        bed.deliver(1, state)
    bed.send(1)
    before = bed.shown().addresses[0]
    assert (before.outcomes.accepted, before.backlog) == (0, 0)
    bed.poll()
    shown = bed.shown()
    row = shown.addresses[0]
    assert (row.address, row.deliveries, row.backlog, row.credit, row.dry) == ("queue.1", 8, 2, 8, 0)
    assert (row.outcomes.accepted, row.outcomes.rejected) == (2, 1)
    assert (row.outcomes.released, row.outcomes.modified) == (1, 1)
    assert shown.addresses[1].outcomes == shown.other_outcomes == Outcomes()


def test_a_sender_without_credit_is_told() -> None:
    bed = Bed(1)
    for _ in range(10):
        bed.deliver(0, 0)
    bed.poll()
    row = bed.shown().addresses[0]
    assert (row.backlog, row.credit, row.dry) == (10, 0, 1)


def test_outcomes_stay_when_their_link_goes() -> None:
    """Those since the last poll, too; a link that comes in its place begins at nothing."""
    bed = Bed(1)
    bed.shown()
    bed.deliver(0, n.S_ACCEPTED)
    bed.poll()
    bed.deliver(0, n.S_ACCEPTED)
    assert bed.forwarder.remove_link(0, 1, 1)
    assert bed.forwarder.add_link(0, 1, 2, LinkTerms(True, bed.addresses.resolve("queue.0").handle, 10))
    for _ in range(3):
        bed.poll()
        assert bed.shown().addresses[0].outcomes.accepted == 2


def test_outcomes_of_the_rest_are_one_row() -> None:
    """Each counts for its address's row, or for the rest while it has none; no number shrinks."""
    bed = Bed(60)
    for number in range(50):
        bed.send(number, 3)
    bed.shown()
    for number in range(60):
        bed.deliver(number, n.S_ACCEPTED if number % 2 else n.S_RELEASED)
    bed.poll()
    shown = bed.shown()
    assert len(shown.addresses) == board.ADDRESSES
    assert sum(row.outcomes.accepted + row.outcomes.released for row in shown.addresses) == 50
    assert (shown.other_outcomes.accepted, shown.other_outcomes.released) == (5, 5)


def test_the_newest_connections_are_shown() -> None:
    """Bounded, with the number of all."""
    bed = Bed(0)
    for i in range(board.CONNECTIONS + 20):
        bed.connections.opened(0, ConnectionOpened(i, 1, f"client {i}", f"10.0.0.1:{i}"))
    bed.connections.opened(0, ConnectionOpened(3, 2, "again", "10.0.0.2:1"))
    shown = bed.shown()
    assert shown.open_connections == board.CONNECTIONS + 20
    assert len(shown.connections) == board.CONNECTIONS
    assert [row.container for row in shown.connections[:2]] == ["again", f"client {board.CONNECTIONS + 19}"]


def test_it_looks_at_most_once_a_second() -> None:
    """In between there is nothing to do, and unchanged content is not written again."""
    bed = Bed(1)
    first = bed.shown()
    bed.send(0)
    assert bed.display.step(bed.now + PERIOD_NS - 1) == 1
    assert board.decode(bed.board.read()) == first
    assert bed.shown().addresses[0].deliveries == 1


@pytest.mark.parametrize(
    ("key", "text"), [("M0a/b", "a/b"), ("Lx", "_local/x"), ("Tx", "_topo/0/all/x"), ("Rother", "Rother")]
)
def test_keys_are_shown_as_clients_spell_them(key: str, text: str) -> None:
    """The class letter is for tables."""
    assert spelling(key) == text
