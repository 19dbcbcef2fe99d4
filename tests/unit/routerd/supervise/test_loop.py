"""The supervisor's loop with a family that is at a certain point."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from routerd.config import Listener, default_config
from routerd.machine.listeners import close_all, listen_all
from routerd.machine.systemd import Manager
from routerd.supervise import supervisor as supervisor_module
from routerd.supervise.supervisor import Supervisor


def test_a_router_that_stops_as_its_last_worker_gets_ready_is_not_announced(capsys: pytest.CaptureFixture[str]) -> None:
    """Its sockets are closed by then: it ends in order, with status 0."""
    listening = listen_all([Listener(host="127.0.0.1", port="0")])
    close_all(listening)
    children: Any = SimpleNamespace(
        failure="", stopping=object(), operational=True, empty=True, places=[], step=lambda now: None
    )
    memory: Any = SimpleNamespace(
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
