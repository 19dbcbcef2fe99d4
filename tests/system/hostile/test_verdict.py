"""The verdict on attacks can fail: each thing that it forbids is done to a router, and told."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from routerd.supervise.watch import HUNG_SECONDS
from tests.support.hostile.verdict import Bounds, Verdict
from tests.support.routers.hurt import HurtRouter
from tests.support.running import Configuration, RunningRouter, roles, until


def verdict_on(router: RunningRouter, attack: Callable[[], None], **bounds: float) -> str:
    """What is wrong after it."""
    try:
        with Verdict(router, Bounds(**bounds)):  # type: ignore[arg-type]  # ints and floats, as their names need
            attack()
    except AssertionError as error:
        return str(error)
    return ""


def test_nothing_is_wrong_with_a_router_in_peace(router: RunningRouter) -> None:
    """Bystanders alone are no attack, and there are many round trips of theirs."""
    with Verdict(router) as verdict:
        time.sleep(0.5)
    (lap,) = verdict.laps
    assert len(lap.trips) > 20


def test_a_death_is_told(tmp_path: pytest.TempPathFactory) -> None:
    """Of the worker, though another one serves a moment later; its clients lost their connections."""
    router = HurtRouter(tmp_path, Configuration(router="workers: 1"))

    def death() -> None:
        router.hit("worker 0")
        time.sleep(1)

    try:
        said = verdict_on(router, death)
        assert said.startswith("worker 0 died\n")
        assert re.search(r"EOFError|ConnectionResetError", said)
        assert verdict_on(router, death, lives=False) == ""
    finally:
        router.kill()


def test_a_stall_is_told(router: RunningRouter) -> None:
    """A core that stands still for longer than anybody may have to wait."""
    core = roles(router.process.pid)["core"]

    def stall() -> None:
        os.kill(core.pid, signal.SIGSTOP)
        time.sleep(HUNG_SECONDS / 2)  # a longer one would have it killed
        os.kill(core.pid, signal.SIGCONT)
        time.sleep(0.2)

    assert re.match(r"a round trip of [2-9]\.\d\d s; allowed: ", verdict_on(router, stall))


def test_a_lack_of_processors_is_no_fault_of_the_router(router: RunningRouter) -> None:
    """Programs on the core's CPU take nearly all of it; the bystanders' time is what the router itself took."""
    core = roles(router.process.pid)["core"]
    cpu = min(os.sched_getaffinity(0))

    def crowd() -> None:
        os.sched_setaffinity(core.pid, {cpu})
        os.sched_setscheduler(core.pid, os.SCHED_IDLE, os.sched_param(0))
        spin = f"import os, time; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
        programs = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2)]
        try:
            time.sleep(3)
        finally:
            for program in programs:
                program.kill()
                program.wait()

    assert verdict_on(router, crowd, times=5, stall=0.4) == ""  # with their waits they take 0.7 s and more


def test_slowness_is_told(router: RunningRouter) -> None:
    """A core that works one two-hundredth of the time: more than a busy machine takes from it."""
    core = roles(router.process.pid)["core"]

    def slowness() -> None:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            os.kill(core.pid, signal.SIGSTOP)
            time.sleep(0.4)
            os.kill(core.pid, signal.SIGCONT)
            time.sleep(0.002)

    assert re.match(r"half of \d+ round trips over \d+\.\d ms; usual: ", verdict_on(router, slowness, times=2))


def test_what_is_left_is_told(router: RunningRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptors that do not come back."""
    monkeypatch.setattr("tests.support.hostile.verdict.LONG", 0.5)
    with ExitStack() as held:

        def hoard() -> None:
            for _ in range(40):
                held.enter_context(socket.create_connection(router.address))
            until(lambda: router.counted("connections") >= 40, "40 connections")

        assert re.search(r"worker \d: \d+ descriptors, \d+ before", verdict_on(router, hoard))


def test_lines_are_told(router: RunningRouter) -> None:
    """More than allowed."""

    def noise() -> None:
        with socket.create_connection(router.address) as one:
            one.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while one.recv(100):
                pass
        until(lambda: "ended before it was opened" in router.log, "the line")

    said = verdict_on(router, noise, lines=0, lines_a_second=0)
    assert re.search(r"1 lines in the log, 0 allowed; .* ended before it was opened", said), said
