"""The supervisor's loop with a family that is at a certain point."""

import logging
import os
import select
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from routerd.config import Listener, default_config, load
from routerd.machine.listeners import close_all, listen_all
from routerd.machine.lookups import wait_for
from routerd.machine.systemd import Manager
from routerd.supervise import supervisor as supervisor_module
from routerd.supervise.supervisor import REPORTS, Supervisor
from shm.contract.control import Drained


def test_a_router_that_stops_as_its_last_worker_gets_ready_is_not_announced(capsys: pytest.CaptureFixture[str]) -> None:
    """Its sockets are closed by then: it ends in order, with status 0."""
    listening = listen_all([Listener(host="127.0.0.1", port="0")])
    close_all(listening)
    children: Any = SimpleNamespace(
        failure="", stopping=object(), operational=True, empty=True, places=[], step=lambda now: None
    )
    memory: Any = SimpleNamespace(
        beat=lambda: None,
        heartbeat=lambda slot: 0,
        recorder_heartbeat=lambda: 0,
        connections=lambda: 0,
        set_certificate_expiry=lambda seconds: None,
    )
    nothing: Any = None
    supervisor = Supervisor(
        default_config(), nothing, children, memory, Manager({}, 1),
        listening=listening, signals=nothing, clock=lambda: 0.0,
    )  # fmt: skip
    assert supervisor.run() == 0
    assert "connect to" not in capsys.readouterr().out


def test_the_loop_turns_each_second_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a stop that waits without a deadline: the exporter takes a beat that stands still for a hang."""
    told: list[str] = []
    waits: list[float] = []
    children: Any = SimpleNamespace(
        failure="", stopping=object(), operational=True, empty=False, places=[], everybody=[],
        step=lambda now: None, next_step=lambda now: None,
    )  # fmt: skip
    memory: Any = SimpleNamespace(beat=lambda: told.append("beat"), set_certificate_expiry=lambda seconds: None)

    class Poll:
        def register(self, *_: object) -> None: ...

        def poll(self, timeout: float) -> list[tuple[int, int]]:
            waits.append(timeout)
            children.empty = len(waits) == 3
            return []

    # Threads that other tests have left use the module itself.
    monkeypatch.setattr(supervisor_module, "select", SimpleNamespace(poll=Poll, POLLIN=select.POLLIN))
    nothing: Any = None
    signals: Any = SimpleNamespace(fileno=lambda: 0)
    supervisor = Supervisor(
        default_config(), nothing, children, memory, Manager({}, 1),
        listening=[], signals=signals, clock=lambda: 0.0,
    )  # fmt: skip
    assert supervisor.run() == 0
    assert told == ["beat"] * 4
    assert all(0 < wait <= 1001 for wait in waits)


def test_an_end_by_an_exception_is_told_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With its traceback and status 1; the log need not go where Python writes tracebacks."""

    def broken(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(supervisor_module, "_assemble", broken)
    assert supervisor_module.run(default_config()) == 1
    (told,) = caplog.records
    assert (told.levelno, told.getMessage()) == (
        logging.CRITICAL,
        "the supervisor ends: unhandled RuntimeError: planted",
    )
    assert told.exc_info


def test_a_silent_resolver_does_not_starve_the_watchdog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A reload may wait twice, which is longer than a short WatchdogSec=; it ends by itself and is no hang."""
    looks: list[bool] = []

    class Silent:
        @property
        def done(self) -> bool:
            looks.append(len(looks) == 3)
            return looks[-1]

    def waiting(*_: object) -> Any:
        silent: Any = Silent()
        wait_for([silent])
        return SimpleNamespace(run=lambda: 0)

    monkeypatch.setattr(supervisor_module, "_assemble", waiting)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "4")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(str(tmp_path / "notify"))
        ear.setblocking(False)
        assert supervisor_module.run(default_config()) == 0
        assert [ear.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3


def test_a_reload_that_fails_as_nobody_foresaw_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It counts as refused, as a change by management does."""

    def broken(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(supervisor_module, "reload", broken)
    reads: list[bool] = []
    children: Any = SimpleNamespace(stopping=None)
    memory: Any = SimpleNamespace(
        set_certificate_expiry=lambda seconds: None, configuration_read=lambda *, taken: reads.append(taken)
    )
    nothing: Any = None
    supervisor = Supervisor(default_config(), nothing, children, memory, Manager({}, 1), listening=[], signals=nothing)
    supervisor._reload()
    assert reads == [False]
    assert "Reload failed: RuntimeError: planted; the router goes on" in caplog.text


def test_a_reload_that_fails_before_the_children_know_of_it_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What was opened is closed, and the file, read again, has the same changes."""

    def broken(*_: object) -> None:
        raise RuntimeError("planted")

    with socket.create_server(("127.0.0.1", 0)) as free:
        host, port = free.getsockname()
    file = tmp_path / "router.conf"
    file.write_text(f"listener {{\n host: {host}\n port: {port}\n name: a\n}}\n")
    config = load(file)
    listening = listen_all(config.listeners)
    before = list(listening)
    file.write_text(f"listener {{\n port: {port}\n name: a\n}}\n")
    nothing: Any = None
    memory: Any = SimpleNamespace(configuration_read=lambda taken: None, set_certificate_expiry=lambda seconds: None)
    children: Any = SimpleNamespace(stopping=None)
    given: Any = SimpleNamespace(version="", doorbells=[], connecting=())
    monkeypatch.setattr(supervisor_module, "blueprint", broken)
    opened = len(os.listdir("/proc/self/fd"))
    supervisor = Supervisor(config, given, children, memory, Manager({}, 1), listening=listening, signals=nothing)
    supervisor._reload()
    assert supervisor._config is config
    assert listening == before
    assert len(os.listdir("/proc/self/fd")) == opened
    socket.create_connection((host, port), timeout=5).close()
    close_all(listening)


def test_a_child_that_never_stops_reporting_holds_nobody_up() -> None:
    """What it says beyond a portion waits for the next turn; of one that has died all is read."""
    left = [Drained()] * (3 * REPORTS)
    said: list[object] = []
    nothing: Any = None
    children: Any = SimpleNamespace(said=lambda place, message, now: said.append(message))
    memory: Any = SimpleNamespace(set_certificate_expiry=lambda seconds: None)
    supervisor = Supervisor(default_config(), nothing, children, memory, Manager({}, 1), listening=[], signals=nothing)
    place: Any = SimpleNamespace(child=SimpleNamespace(receive=lambda: left.pop() if left else None))
    supervisor._take_reports(place)
    assert len(said) == REPORTS
    supervisor._take_reports(place, most=None)
    assert len(said) == 3 * REPORTS
