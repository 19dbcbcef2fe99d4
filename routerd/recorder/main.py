"""The recorder process: reads the ring, writes and maintains files, and obeys the supervisor."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from select import select
from typing import Final

from routerd.recorder.keeping import Keeper
from routerd.recorder.record import Recorder
from shm.contract.channel import Channel
from shm.contract.control import Exit, Ready, Setup, StopAccepting
from shm.contract.failures import failures, start_thread
from shm.contract.flow_log.setup import FlowLogSetup, SetFlowLog
from shm.memory import segment
from shm.native import StatsPage
from shm.statistics import stats
from shm.statistics.stats import COUNTERS

LOGGER = logging.getLogger("ROUTER")

KEEPING_SECONDS: Final = 60.0
LOOKS: Final = 3  # at the clocks
LAST_SECONDS: Final = 0.1  # after Exit, for records of the exiting core
_LAZY: Final = 19  # niceness of the maintenance thread


def run(setup: Setup, channel: Channel) -> None:
    """Serve until the supervisor sends Exit."""
    segments = segment.attach(setup.segments)
    page = segments.recorder_stats()
    stats.own(page, os.getpid(), setup.generation)
    failures.count_in(page)
    recorder = Recorder(segments.flow, page, setup.router_id, _utc, _offset)
    recorder.configure(setup.flow, time.monotonic())
    keeping = Keeping(setup.router_id, page, _utc)
    keeping.configure(setup.flow)
    channel.send(Ready(os.getpid()))
    serve(recorder, keeping, page, channel)
    recorder.turn(time.monotonic())
    time.sleep(LAST_SECONDS)
    recorder.finish(time.monotonic())
    page.own(0, setup.generation)


def serve(recorder: Recorder, keeping: "Keeping", page: StatsPage, channel: Channel) -> None:
    """Run turns until the supervisor sends Exit."""
    while True:
        began = time.monotonic()
        pause = recorder.turn(began)
        keeping.step(began)
        page.beat()
        page.add(COUNTERS["loops"].place)
        longest = COUNTERS["longest_turn_ns"].place
        page.set(longest, max(page.get(longest), int((time.monotonic() - began) * 1e9)))
        page.add(COUNTERS["sleeps"].place)
        select([channel], [], [], pause)
        while (message := channel.receive()) is not None:
            match message:
                case Exit():
                    return
                case SetFlowLog(flow):
                    if flow.directory:  # else Exit follows, and what is left goes where the others are
                        recorder.configure(flow, time.monotonic())
                        keeping.configure(flow)
                case StopAccepting():
                    recorder.roll(time.monotonic())  # little is left at the end
                case _:
                    LOGGER.debug("the supervisor said %r, which is not for the recorder", message)


def _utc() -> datetime:
    return datetime.now(UTC)


def _offset() -> int:
    """Return the time of day at monotonic 0, in nanoseconds.

    Who is interrupted between two clocks takes the interruption for a part of the time: the quickest look counts.
    """
    looks = ((time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(LOOKS))
    before, wall, after = min(looks, key=lambda look: look[2] - look[0])
    return wall - (before + after) // 2


class Keeping:
    """Maintains closed files from time to time in a thread of lowest priority."""

    def __init__(self, router: str, page: StatsPage, wall: Callable[[], datetime]) -> None:
        self._router = router
        self._page = page
        self._wall = wall
        self._keeper: Keeper | None = None
        self._thread: threading.Thread | None = None
        self._due = 0.0
        self._told: dict[str, str] = {}

    def configure(self, setup: FlowLogSetup) -> None:
        """Maintain the files of this set-up from now on."""
        self._keeper = Keeper(setup, self._router)

    def step(self, now: float) -> None:
        """Start maintenance if it is due and none is running."""
        if now < self._due or (self._thread is not None and self._thread.is_alive()):
            return
        self._due = now + KEEPING_SECONDS
        self._thread = start_thread("flow log", self._look, self._keeper)

    def _look(self, keeper: Keeper) -> None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LAZY)
        # Each task runs by itself: if joining finds no room, deletion makes some.
        works = (
            ("flow_recovered", keeper.recover),
            ("flow_compacted", keeper.compact),
            ("flow_deleted", keeper.delete),
        )
        for counter, work in works:
            try:
                self._page.add(COUNTERS[counter].place, work(self._wall()))
                self._told.pop(counter, None)
                self._page.set(COUNTERS["flow_doubted"].place, int(abs(keeper.doubted)))
            except Exception as error:  # a failing task must not prevent the others
                self._page.add(COUNTERS["flow_errors"].place)
                if not isinstance(error, OSError):
                    failures.tell("maintaining closed files of the flow log", error, "it is tried again")
                if str(error) != self._told.get(counter):
                    LOGGER.error("Flow log: its closed files cannot be maintained: %s", error or type(error).__name__)
                self._told[counter] = str(error)
