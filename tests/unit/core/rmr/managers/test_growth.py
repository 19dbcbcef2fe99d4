"""What one application, or one connection, costs a Route Manager does not grow with the others and their tables."""

from collections.abc import Callable, Iterator

import pytest

from core.rmr.managers import messages
from core.rmr.managers.messages import REQUEST, STATE, Heard, request, state
from core.rmr.managers.server import Limits, Server
from tests.support.beds.effort import Effort
from tests.support.beds.rmr.manager_session import World, content
from tests.support.beds.rmr.table_server import Bed, S, table
from tests.support.values.table_use import Use

FEW, MANY = 250, 1000  # applications, connections, or entries of the table
SOME = 20  # events of a kind that are counted
GROWTH = 1.25
ROOM = 1 << 30


class Served(Bed):
    """A Route Manager with a table of ``entries``, and applications that run it."""

    def __init__(self, applications: int, entries: int) -> None:
        super().__init__()
        self.free = ROOM
        self.server = Server("me1", "", self, self.hear, Limits(10 * MANY, 10 * MANY))
        self.install(table(*(f"mse|{i}|-1|a:1" for i in range(entries))))
        for number in range(applications):
            self.request(number)
            self.acknowledge(number)
        self.turn()

    def request(self, number: int) -> None:
        heard = Heard(REQUEST, f"a:{number}", request(f"e:{number}", 1), f"c{number}", f"10.0.{number >> 8}.1:1")
        assert self.server.requested(heard, f"a:{number}", self.now) == ""

    def acknowledge(self, number: int, answer: str = "", source: str = "") -> None:
        (text,) = {one.table.text.table_id for one in self.server if one.control == f"a:{number}" and one.table.text}
        heard = Heard(STATE, source or f"a:{number}", state(text, ""), answer or f"c{number}")
        with self.counted:
            self.server.answered(heard, self.now)

    def turn(self) -> None:
        """Steps until nothing is left to do; the longest one counts."""
        self.now += S
        most = 0
        while True:
            with Effort() as effort:
                self.server.step(self.now)
            most = max(most, effort.lines)
            if not self.server.busy:
                break
        self.longest = most

    counted = Effort()


def served(applications: int, entries: int) -> dict[str, int]:
    """Lines of each event."""
    bed, found = Served(applications, entries), {}
    new = range(applications, applications + SOME)

    def count(name: str, event: Callable[[int], None], numbers: range) -> None:
        found[name] = 0
        for number in numbers:
            with Effort() as effort:
                event(number)
            found[name] += effort.lines

    bed.turn()
    found["a turn"] = bed.longest
    count("an application requests again", bed.request, range(SOME))
    found["an application answers"] = 0
    for number in range(SOME):
        bed.acknowledge(number)
        found["an application answers"] += bed.counted.lines
    for number in range(SOME, 2 * SOME):
        bed.request(number)
        bed.acknowledge(number, source="nobody:1")
        found["an application answers"] += bed.counted.lines
    count("a new one requests", bed.request, new)
    count("one is remembered", lambda number: bed.server.know("", f"old:{number}", f"old:{number}"), new)
    count("its connection comes", lambda number: bed.server.reached(f"old:{number}", f"o{number}", bed.now), new)
    count("a connection is lost", lambda number: bed.server.lost(f"c{number}", bed.now), range(SOME))
    count("a stranger's is", lambda number: bed.server.lost(f"s{number}", bed.now), range(SOME))
    return found


def managers(n: int, _: int) -> dict[str, int]:
    """A session with n connections, each of which has sent a request that this router does not serve."""
    world, found = World(manager="rm:4561"), {}
    for number in range(n):
        world.connect(number, f"10.0.0.1:{number}")
        world.session.heard(content_of(number), number, world.now)
    with Effort() as effort:
        world.session.step(world.now)
    found["a turn"] = effort.lines
    with Effort() as effort:
        for number in range(SOME):
            world.close(number)
    found["a connection is lost"] = effort.lines
    return found


def content_of(number: int) -> bytes:
    return content(messages.REQUEST, request(f"e:{number}", 1), source=f"a:{number}")


@pytest.mark.parametrize(("what", "by"), [(served, (1, 0)), (served, (0, 1)), (managers, (1, 0))])
def test_events_cost_as_much_among_many(what: Callable[[int, int], dict[str, int]], by: tuple[int, int]) -> None:
    """Among many applications, with a table of many entries, and among many connections."""
    few, many = (what(*(n if grows else 50 for grows in by)) for n in (FEW, MANY))
    assert {name: (few[name], cost) for name, cost in many.items() if cost > few[name] * GROWTH} == {}


class Read(dict[str, str]):
    """Owners that count how often all of them are read."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        Read.times += 1
        return super().__iter__()


def test_no_application_reads_all_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be a million, the core forwards nothing meanwhile, and each application had a set of its own."""
    monkeypatch.setattr(Read, "times", 0)
    bed = Bed()
    bed.install(table("mse|1|-1|%meid"))
    bed.use = Use(bed.use.table, Read({"x": "a:1", "y": "a:1"}))
    bed.server.install(bed.use, None)
    for number in range(SOME):
        bed.ask(f"c{number}", f"e:{number}", f"a:{number}")
        for _ in range(2):  # the table and the map
            bed.later(0)
            taken = bed.take()
            said = state(bed.ids[-1], "")
            bed.server.answered(Heard(STATE, f"a:{number}", said, f"c{number}"), bed.now)
        assert taken[1] == "mme_ar|a:1|x y"
    assert {one.state for one in bed.server} == {"ok"}
    assert Read.times == 0
