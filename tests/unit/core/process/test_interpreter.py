"""What may hold the interpreter lock that the core's own thread needs, and for how much at a time."""

import gc
import os
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import posix_ipc  # type: ignore[import-not-found]  # an extension without type information
import pytest

from core.forwarder.forward import Way
from core.main import serve
from core.process import interpreter
from core.process.interpreter import AGED, YOUNG
from shm.contract.control import Exit, ToChild
from tests.unit.core.process.test_control import Bed

ASKED = 2000  # so often a thread offers the lock; each time it sleeps as long as the core wants the lock


@pytest.fixture
def bed() -> Iterator[Bed]:
    name = f"/routerd-test-{os.getpid()}-lock"
    semaphore = posix_ipc.Semaphore(name, posix_ipc.O_CREX, mode=0o600)
    try:
        yield Bed(name)
    finally:
        semaphore.unlink()
        semaphore.close()


@pytest.fixture
def alone() -> Iterator[None]:
    """Nobody is made to give up the lock: who waits for it would wait for ever."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


def test_a_thread_that_gives_way_lets_the_core_have_the_lock(bed: Bed, alone: None) -> None:
    """Without a timer: the core has said that it wants the lock when its turn of forwarding ended."""
    way = Way(bed.core.forwarder)
    running, back, left = threading.Event(), threading.Event(), [ASKED]

    def work() -> None:
        running.set()
        while left[0] and not back.is_set():
            way.give()
            left[0] -= 1

    thread = threading.Thread(target=work, daemon=True)
    bed.core.run(0)
    thread.start()
    running.wait()
    back.set()
    thread.join()
    assert left[0]


def test_messages_pass_between_any_two_jobs_of_a_turn(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errands, what is due, the three watchers, and messages of the supervisor: none waits for two of the others."""
    done: list[str] = []
    forward, tick = bed.core.run, bed.core.tick

    def run(timeout: int, busy: int = 0) -> bool:
        done.append("forward")
        return forward(timeout, busy)

    def due(now: int) -> None:
        done.append("tick")
        tick(now)

    def receive() -> ToChild:
        return Exit()

    monkeypatch.setattr(bed.core, "run", run)
    monkeypatch.setattr(bed.core, "tick", due)
    bed.core.errands += [lambda: done.append("errand")] * 2
    pauses = [10**9, 0]

    def show(now: int) -> int:
        done.append("display")
        return pauses.pop()

    display = SimpleNamespace(step=show)
    serve(bed.core, display, SimpleNamespace(receive=receive), lambda: 1, 0)
    watchers = ["display", "forward", "display", "forward", "forward", "forward"]  # stuck links and memory: not seen
    assert done == ["forward", "errand", "forward", "errand", "forward", "tick", "forward", *watchers]


def test_a_collection_visits_few_objects() -> None:
    """Those that came since the last one, or since the last three; never all, which is for later."""
    thresholds, interval = gc.get_threshold(), sys.getswitchinterval()
    seen: list[int] = []

    def collected(phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            seen.append(about["generation"])

    try:
        interpreter.prepare()
        gc.callbacks.append(collected)
        things: list[list[int]] = [[] for _ in range(20 * YOUNG)]
        gc.callbacks.remove(collected)
        assert len(things) == 20 * YOUNG
        assert len(seen) >= 20 - 1
        assert seen.count(1) >= len(seen) // (AGED + 2)
        assert 2 not in seen
        assert sys.getswitchinterval() <= interpreter.SWITCH_SECONDS
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
