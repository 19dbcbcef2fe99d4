"""Tables built in a thread while the core routes: nobody waits for them, and none is half in use."""

import sys
import threading
import time
from pathlib import Path

import pytest

from core.rmr.active.intake import WEIGHT, Feed, Intake, Made, Outcome, Text, Unfinished
from core.rmr.active.route_tables import RouteTables
from shm import native as n
from shm.contract.control import SetTables
from shm.contract.failures import failures
from tests.model.table_site import TableSite, got
from tests.support.beds.effort import Effort

ENTRIES = 100_000
LONG = 60.0


def table(name: str, endpoint: str) -> str:
    rows = (f"mse|{1000 + at % 100}|{at // 100}|{endpoint}\n" for at in range(ENTRIES))
    return "".join([f"newrt|start|{name}\n", *rows, f"newrt|end|{ENTRIES}\n"])


def test_a_table_is_swapped_under_load() -> None:
    """Every message goes to one table's endpoint or to the other's; turns of the core stay short."""
    site = TableSite()
    woken = threading.Event()
    a, b, link = site.receiver("a:1"), site.receiver("b:1"), site.sender()
    site.table(table("old", "a:1"))
    site.core.plane(RouteTables).intake = Intake(woken.set)
    outcomes: list[Outcome] = []
    site.core.plane(RouteTables).take(site.active.feed("test", outcomes.extend), table("new", "b:1"), last=True)
    number, longest, end = 0, 0, time.monotonic() + LONG
    while not outcomes or site.core.restless:
        assert time.monotonic() < end
        with Effort() as effort:
            site.core.plane(RouteTables).step(0)
        longest = max(longest, effort.lines)
        site.give(link, number, 1000 + number % 100, 1)
        number += 1
    site.give(link, number, 1000, 1)
    assert woken.is_set()
    assert [(one.kind, one.table_id, one.ok) for one in outcomes] == [("table", "new", True)]
    assert got(a) + got(b) == list(range(number + 1))
    assert got(b)[-1] == number
    assert all(site.outcomes[one] == [n.S_ACCEPTED] for one in range(number + 1))
    assert longest < 1000  # lines of Python: no turn looks at the entries one by one
    taken = site.active.native.counts()[0]
    assert taken == number + 1


def test_a_sender_that_cannot_be_told_ends_nothing() -> None:
    """Its table is in use, and the next one is taken."""
    site, before = TableSite(), failures.number
    tables = site.core.plane(RouteTables)
    outcomes: list[Outcome] = []

    def fails(_: list[Outcome]) -> None:
        raise ValueError("a fault of whoever sent the table")

    tables.take(site.active.feed("one", fails), "newrt|start|t1\nmse|1|-1|a:1\nnewrt|end|1\n", last=True)
    tables.take(site.active.feed("two", outcomes.extend), "newrt|start|t2\nmse|1|-1|a:1\nnewrt|end|1\n", last=True)
    while not outcomes:
        tables.step(0)
    assert failures.number == before + 1
    assert (outcomes[0].ok, site.active.history.table_id) == (True, "t2")


def test_a_text_that_cannot_be_built_ends_nothing() -> None:
    """The next one is taken."""
    site = TableSite()
    site.core.plane(RouteTables).intake = Intake(lambda: None)
    outcomes: list[Outcome] = []
    broken = site.active.feed("broken", lambda _: None)
    broken.values = None  # type: ignore[assignment]  # what no text does: a mistake of ours
    made = site.core.plane(RouteTables).intake
    made.put(broken, table("t", "a:1")[:200], last=True)
    site.core.plane(RouteTables).take(
        site.active.feed("whole", outcomes.extend), "newrt|start|w\nmse|1000|1|a:1\nnewrt|end|1\n", last=True
    )
    end = time.monotonic() + LONG
    while not outcomes:
        assert time.monotonic() < end
        site.core.plane(RouteTables).step(0)
    assert [one.table_id for one in outcomes] == ["w"]


def test_a_stash_that_cannot_be_removed_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The thread goes on, and what comes next is done."""
    intake = Intake(lambda: None)
    (tmp_path / "folder").mkdir()
    intake.keep(str(tmp_path / "folder"), None)  # no file: whoever removes it fails
    outcomes: list[Outcome] = []
    intake.put(TableSite().active.feed("test", outcomes.extend), table("next", "a:1"), last=True)
    intake.close()
    assert len(intake.made) == 1
    assert intake._thread is not None
    assert not intake._thread.is_alive()
    assert "folder of a route table no longer in use cannot be removed" in caplog.text
    assert "thread tables failed" not in caplog.text


def test_the_thread_ends_though_keeping_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At the end of a core nothing begins anew, and what failed is told."""

    def fail() -> None:
        raise RuntimeError("planted")

    intake = Intake(lambda: None)
    monkeypatch.setattr(intake._keeper, "flush", fail)
    intake.forget([])
    intake.close()
    assert intake._thread is not None
    assert not intake._thread.is_alive()
    assert "keeping route tables at the end failed: RuntimeError: planted" in caplog.text


@pytest.mark.parametrize("waits", [False, True], ids=["made", "waits for its turn"])
def test_who_sent_a_table_is_told_that_it_has_no_place_any_more(waits: bool) -> None:
    """A reload removed the route table while its text was read."""
    site = TableSite()
    tables, active, outcomes = site.core.plane(RouteTables), site.active, list[Outcome]()
    tables.take(active.feed("test", outcomes.extend), "newrt|start|t\nmse|1|-1|a:1\nnewrt|end|1\n", last=True)
    if waits:
        active.waiting.append(tables.intake.made.popleft())
    site.core.configure(SetTables([]))
    tables.step(0)
    assert [(one.ok, one.reason) for one in outcomes] == [(False, "its route table does not exist any more")]


def test_texts_that_wait_to_be_read_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In octets of memory, until they have been read; an empty one takes some, too."""
    go_on, woken = threading.Event(), threading.Event()
    site, text = TableSite(), "newrt|start|t\nmse|1|-1|a:1\nnewrt|end|1\n"
    take = Feed.take

    def waits(feed: Feed, text: Text, last: bool) -> Made:
        assert go_on.wait(LONG)
        return take(feed, text, last)

    monkeypatch.setattr(Feed, "take", waits)
    intake = Intake(woken.set)
    intake.put(site.active.feed("test", lambda _: None), text, last=True)
    assert intake.queued == sys.getsizeof(text) + WEIGHT
    go_on.set()
    assert woken.wait(LONG)
    assert intake.queued == 0
    intake.close()


def test_a_long_push_holds_up_no_other_source() -> None:
    """Pushers take turns with each other, and with seeds and Route Managers."""
    site, intake = TableSite(), Intake(lambda: None)
    begin, intake.begin = intake.begin, lambda: None  # not before all have come
    for origin, pieces in (("long", 20), ("short", 1)):
        feed = site.active.feed(origin, lambda _: None, unfinished=Unfinished())
        for _ in range(pieces):
            intake.put(feed, "#\n", last=False)
    intake.put(site.active.feed("seed", lambda _: None), "newrt|start|t\nnewrt|end|0\n", last=True)
    begin()
    intake.close()
    read = [made.feed.origin for made in intake.made]
    assert read[:4] == ["long", "short", "seed", "long"]
    assert len(read) == 22
