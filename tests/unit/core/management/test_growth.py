"""What a management request costs does not grow with the tables: a READ, and a page of a QUERY."""

import os

from bench.contract import C_ATTACH, C_CONNECTION_OPENED
from shm.contract.payloads import Attach, ConnectionOpened
from shm.memory import segment
from tests.support.beds.agent import Bed
from tests.support.beds.effort import Effort

FEW, MANY = 100, 400  # connections, each with a link to an address of its own
PAGE = 20
GROWTH = 1.25
SCANNED = {"connection": 2}  # lines of a QUERY for each entity that is not on the page


def filled(bed: Bed, n: int) -> None:
    for i in range(1, n):
        bed.say(C_CONNECTION_OPENED, ConnectionOpened(i, 1, f"c{i}", f"10.0.0.1:{i}", number=100 + i))
        bed.say(C_ATTACH, Attach(2 + i, 1, i, f"l{i}", True, f"addr.{i}"))
        bed.core.step(i)
        for record in bed.heard():
            bed.arena.free_chain(record["block"])
        bed.work.give_back()
    assert len(bed.core.connections) == n


def costs(bed: Bed, n: int) -> dict[str, float]:
    """The lines of each request."""
    filled(bed, n)
    found: dict[str, float] = {}
    for kind in ("connection", "router.link", "router.address"):
        row = bed.query(kind, "identity", "name", offset=n // 2, count=1)[0]
        for by in ("identity", "name"):
            with Effort() as effort:
                assert bed.crud("READ", type=kind, **{by: row[by]})[1]["identity"] == row["identity"]
            found[f"read {kind} by {by}"] = effort.lines
        for offset in (0, n - PAGE):
            with Effort() as effort:
                assert len(bed.query(kind, offset=offset, count=PAGE)) == PAGE
            found[f"query {kind} from {'the end' if offset else 'the beginning'}"] = (
                effort.lines - SCANNED.get(kind, 0) * n
            )
    return found


def test_a_request_costs_as_much_among_many() -> None:
    """A READ looks at one entity. A QUERY passes over those that are not on its page, and reads none."""
    counted = []
    for n in (FEW, MANY):
        segments = segment.create(segment.segment_prefix(f"test-growth-{n}", os.getpid()), 1, 8)
        try:
            counted.append(costs(Bed(segments), n))
        finally:
            segments.unlink()
    few, many = counted
    assert {name: (few[name], cost) for name, cost in many.items() if cost > few[name] * GROWTH} == {}
