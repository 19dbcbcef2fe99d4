"""`routerd reload` at a router whose supervisor does nothing."""

import os
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from routerd.cli import reload
from routerd.cli.restart import Found, RestartError

Line = list[object]


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A supervisor that does nothing at a signal but ``signalled``."""
    made = SimpleNamespace(reads=1, kept=[], signalled=lambda: None, lives=True)
    view = SimpleNamespace(
        journal=lambda _: SimpleNamespace(lines=lambda most: made.kept[-most:]),
        page=lambda _: SimpleNamespace(counters={"config_reads": made.reads, "config_taken": 0}),
    )
    monkeypatch.setattr(reload, "SharedView", lambda _: view)
    monkeypatch.setattr(reload, "lives", lambda _: made.lives)
    monkeypatch.setattr(os, "kill", lambda *_: made.signalled())
    return made


def line(text: str) -> Line:
    return ["SERVER", "error", f"Reload: {text} process=supervisor", "reload.py", 1, 1.0]


def reads(supervisor: SimpleNamespace, *texts: str) -> Callable[[], None]:
    """A supervisor that refuses a configuration for these reasons, and has room for no other lines."""

    def read() -> None:
        supervisor.kept = list(map(line, texts))
        supervisor.reads += 1

    return read


def test_every_reason_is_told(supervisor: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    """However many: the first ones name the mistakes of the file's begin."""
    supervisor.signalled = reads(supervisor, *(f"mistake {number}" for number in range(500)))
    with pytest.raises(RestartError, match="keeps its configuration"):
        reload.run(Found("A", 1), 10)
    assert capsys.readouterr().err.splitlines() == [f"mistake {number}" for number in range(500)]


def test_lines_that_have_made_room_are_told_of(supervisor: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    """The journal keeps the last ones alone: with one from before, all are there."""
    supervisor.kept = [line("before")]
    supervisor.signalled = reads(supervisor, "last", "very last")
    with pytest.raises(RestartError):
        reload.run(Found("A", 1), 10)
    assert capsys.readouterr().err.splitlines() == [reload.MORE, "last", "very last"]
    supervisor.signalled = reads(supervisor, "very last", "new")
    with pytest.raises(RestartError):
        reload.run(Found("A", 1), 10)
    assert capsys.readouterr().err.splitlines() == ["new"]


def test_a_router_that_stops_is_not_waited_for(supervisor: SimpleNamespace) -> None:
    """A stopping one reads no configuration, and one that has died none at all."""
    supervisor.lives = False
    with pytest.raises(RestartError, match="router A has stopped meanwhile"):
        reload.run(Found("A", 1), 1e6)


def test_a_supervisor_that_does_not_read_is_told_with_what_comes_of_it(supervisor: SimpleNamespace) -> None:
    """The signal waits for it, so the configuration may be taken later."""
    with pytest.raises(RestartError) as late:
        reload.run(Found("A", 1), 0)
    assert late.value.message == (
        "router A has not read its configuration within 0 s; its supervisor hangs or is busy, and reads it once it "
        "goes on: /healthz says whether it hangs, and `routerd log` what has become of the configuration"
    )
