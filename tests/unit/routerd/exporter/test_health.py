"""What only time tells: hung loops, missing processes, rates, alarms; the clock is the test's."""

import base64
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from bench import contract
from routerd.exporter.collector import Identity
from routerd.exporter.observer import HUNG_SECONDS, MISSING_SECONDS, SUPERVISOR_HUNG_SECONDS, Observer
from routerd.exporter.server import Answer, Request
from routerd.exporter.site import Pages
from shm.memory import segment
from shm.memory.observer import SharedView
from shm.statistics import board, stats
from shm.statistics.board import AddressRow, Board, ConnectionRow, ConnectorRow, EdgeRow, RouterRow

ME = Identity("me", "1.2", "3.11")
WORKING = ("worker-0", "worker-1", "core")
EVERYBODY = (*WORKING, "supervisor")


class Bed:
    """A router of two workers and a core, all played by the test; one tick is a second."""

    def __init__(self, segments: segment.Segments) -> None:
        self.segments = segments
        self.now = 1000.0
        self.page("supervisor").own(os.getpid(), 1)
        for process in WORKING:
            self.page(process).own(os.getpid(), 1)
            self.set(process, accepting=1)
            self.set(process, small_free=1000, large_free=1000)
        self.observer = Observer(SharedView(segments.names.prefix), lambda: self.now)
        self.pages = Pages(self.observer, ME, Counter(), Counter())
        self.tick()

    def page(self, process: str) -> contract.StatsPage:
        match process:
            case "core":
                return self.segments.core_stats()
            case "supervisor":
                return self.segments.supervisor_stats()
            case _:
                return self.segments.worker_stats(int(process[-1]))

    def set(self, process: str, **numbers: int) -> None:
        for name, number in numbers.items():
            self.page(process).set(stats.COUNTERS[name].place, number)

    def tick(self, beating: tuple[str, ...] = EVERYBODY, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.now += 1
            for process in beating:
                self.page(process).beat()
            self.observer.tick()

    def asked(self, path: str, metrics: bool = True, healthz: bool = True) -> Answer:
        return self.pages.site(metrics, healthz)(Request(path))

    @property
    def alarms(self) -> str:
        return "\n".join(json.loads(self.asked("/status.json").body)["alarms"])


@pytest.fixture
def bed() -> Iterator[Bed]:
    with segment.create(segment.segment_prefix("test-health", os.getpid()), 2, 1) as segments:
        yield Bed(segments)


def test_a_router_that_works_is_live_and_ready(bed: Bed) -> None:
    """Both say so, and there is no alarm."""
    bed.tick(seconds=3)
    assert (bed.asked("/healthz").status, bed.asked("/healthz").body) == (200, b"live\n")
    assert (bed.asked("/readyz").status, bed.asked("/readyz").body) == (200, b"ready\n")
    assert bed.alarms == ""


@pytest.mark.parametrize("hung", EVERYBODY)
def test_a_loop_that_does_not_turn_is_noticed(bed: Bed, hung: str) -> None:
    """After 5 s, not before, and a supervisor that may wait for a resolver after 40; a beat makes it well again."""
    others = tuple(process for process in EVERYBODY if process != hung)
    bed.tick(others, int(SUPERVISOR_HUNG_SECONDS if hung == "supervisor" else HUNG_SECONDS) - 1)
    assert bed.asked("/healthz").status == 200
    bed.tick(others, 2)
    answer = bed.asked("/healthz")
    assert answer.status == 503
    assert hung in answer.body.decode()
    assert not any(other in answer.body.decode() for other in others)
    assert bed.asked("/readyz").status == (503 if hung == "core" else 200)  # messages flow
    assert f"{hung}: its loop has not turned for" in bed.alarms
    assert b'routerd_process_up{process="%b"} 0.0' % hung.encode() in bed.asked("/metrics").body
    bed.tick()
    assert bed.asked("/healthz").status == 200


def test_a_killed_worker_is_forgiven_for_a_while(bed: Bed) -> None:
    """Not healthy after 5 s, though ready: the other serves. Its successor is well; one restart is no alarm."""
    bed.page("worker-1").own(0, 1)
    others = ("worker-0", "core", "supervisor")
    bed.tick(others)
    assert (bed.asked("/healthz").status, bed.asked("/readyz").status) == (200, 200)
    bed.tick(others, int(MISSING_SECONDS))
    assert (bed.asked("/healthz").status, bed.asked("/readyz").status) == (503, 200)
    assert "worker-1: missing for" in bed.alarms
    bed.page("worker-1").own(os.getpid(), 2)
    bed.tick()
    assert (bed.asked("/healthz").status, bed.asked("/readyz").status) == (200, 200)
    assert bed.alarms == ""


def test_a_process_that_keeps_dying_is_an_alarm(bed: Bed) -> None:
    """The third restart in ten minutes, as the rule has it; those before count no more then."""
    for generation in (2, 3):
        bed.page("worker-1").own(os.getpid(), generation)
        bed.tick(seconds=299)
        assert bed.alarms == ""
    bed.page("worker-1").own(os.getpid(), 4)
    bed.tick()
    said = "worker-1: started again 3 times within the last 10 minutes; the log says why"
    assert bed.alarms == said
    bed.page("worker-1").own(os.getpid(), 6)
    bed.tick(seconds=2)
    assert bed.alarms == said.replace("3", "4")
    bed.tick(seconds=600)
    assert bed.alarms == ""


def test_the_starts_of_another_router_do_not_count(bed: Bed) -> None:
    """One that begins anew under the same names, or a worker that was not there before."""
    bed.page("worker-1").own(os.getpid(), 0)
    bed.tick()
    bed.page("worker-1").own(os.getpid(), 9)
    bed.tick()
    assert "worker-1: started again 8 times" in bed.alarms
    bed.page("worker-1").own(os.getpid(), 1)
    bed.tick()
    assert bed.alarms == ""


def test_a_process_whose_number_is_nobodys_is_missing(bed: Bed) -> None:
    """A page that a killed process left behind does not count."""
    bed.page("core").own(2**22 + 1, 1)  # beyond what the kernel gives
    bed.tick(seconds=int(MISSING_SECONDS) + 1)
    assert b"core: missing" in bed.asked("/healthz").body


def test_a_router_without_its_core_is_not_ready_for_long(bed: Bed) -> None:
    """The next one is there in a moment, and connections stay up; if it is not, nothing is routed."""
    bed.page("core").own(0, 1)
    bed.tick(("worker-0", "worker-1", "supervisor"), int(MISSING_SECONDS) - 1)
    assert bed.asked("/readyz").status == 200
    bed.tick(("worker-0", "worker-1", "supervisor"), 1)
    assert bed.asked("/readyz").body.startswith(b"not ready\ncore: missing")


def test_a_worker_that_drains_does_not_make_the_router_unready(bed: Bed) -> None:
    """Another takes connections; when nobody does, clients wait in the queue, but not for ever."""
    bed.set("worker-0", accepting=0)
    bed.tick(seconds=60)
    assert bed.asked("/readyz").status == 200
    bed.set("worker-1", accepting=0)
    bed.tick(seconds=int(MISSING_SECONDS) - 1)
    assert bed.asked("/readyz").status == 200
    bed.tick()
    found = b"not ready\nworker-0: takes no connections\nworker-1: takes no connections\n"
    assert bed.asked("/readyz").body == found
    bed.set("worker-0", accepting=1)
    assert bed.asked("/readyz").status == 200


def test_a_stopping_router_is_live_but_not_ready(bed: Bed) -> None:
    """At once, whoever still takes connections."""
    bed.observer.stopping = True
    assert bed.asked("/healthz").status == 200
    assert bed.asked("/readyz").body == b"not ready\nsupervisor: the router stops\n"


def test_rates_are_per_second_of_the_last_ones(bed: Bed) -> None:
    """All processes together; a counter that was set back is no negative rate."""
    for second in range(1, 11):
        bed.set("worker-0", deliveries_in=100 * second)
        bed.set("worker-1", deliveries_in=20 * second)
        bed.segments.board().write(board.encode(Board([AddressRow("a", "balanced", 7 * second, 1, 1)])))
        bed.tick()
    status = json.loads(bed.asked("/status.json").body)
    assert status["rates"]["deliveries_in"] == 120
    assert status["addresses"][0]["rate"] == 7
    bed.set("worker-0", deliveries_in=0)
    bed.tick()
    status = json.loads(bed.asked("/status.json").body)
    assert min(status["rates"].values()) == 0


def test_status_has_what_the_page_shows(bed: Bed) -> None:
    """Names in camel case, numbers of all processes, connections as rows."""
    row = ConnectionRow(1, "client", "10.0.0.1:1", "normal", "joe")
    connectors = [ConnectorRow("broker", False, 3, "refused")]
    routers = [RouterRow("B", "B", 1, 7, 8), RouterRow("C", "", None)]
    edges = [EdgeRow(0, 1, 1)]
    bed.segments.board().write(
        board.encode(Board([], 5, [row], 1, connectors=connectors, routers=routers, edges=edges))
    )
    bed.set("worker-1", connections=1, links=2)
    status = json.loads(bed.asked("/status.json").body)
    assert [process["name"] for process in status["processes"]] == [*WORKING, "supervisor"]
    assert (status["openConnections"], status["links"]) == (1, 2)
    assert status["connections"] == [[1, "client", "10.0.0.1:1", "normal", "joe"]]
    assert status["connectors"] == [["broker", False, 3, "refused"]]
    assert status["routers"] == [["B", "B", 1, 7, 8], ["C", "", None, 0, 0]]
    assert status["edges"] == [[0, 1, 1]]
    assert status["otherDeliveries"] == 5
    assert all(process["memory"] > 0 for process in status["processes"])


def test_listeners_switch_pages_off(bed: Bed) -> None:
    """`metrics: no` and `healthz: no`."""
    assert bed.asked("/metrics", metrics=False).status == 404
    assert bed.asked("/healthz", healthz=False).status == bed.asked("/readyz", healthz=False).status == 404
    assert bed.asked("/metrics", healthz=False).status == bed.asked("/healthz", metrics=False).status == 200


def test_the_page_is_self_contained(bed: Bed) -> None:
    """It asks only for its own data; a browser is told to load nothing else, and to run only the page's own script."""
    answer = bed.asked("/")
    page, policy = answer.body.decode(), answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for kind, tag in (("script", "script"), ("style", "style")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "http://" not in page
    assert "https://" not in page
    assert "innerHTML" not in page
    past = json.loads(bed.asked("/history.json").body)
    shown = {*json.loads(bed.asked("/status.json").body), *past, *past["names"]}
    assert {word for word in shown if word not in page} == set()  # every figure is used
