"""Log lines as text, and which of them are new."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from routerd.cli.client import ClientError
from routerd.cli.log import as_object, as_text, check_module, later


def line(text: str, seconds: int = 1_790_000_000) -> list[Any]:
    return ["SERVER", "notice", text, "supervisor.py", 7, seconds]


def test_a_line_is_text_that_moves_no_cursor() -> None:
    """A peer's name is in it."""
    shown = as_text(line("container '\x1b[2J\nx' opened"))
    assert shown.endswith(r"SERVER (notice) container '\x1b[2J\nx' opened")
    assert shown.isprintable()


def test_a_line_is_an_object_with_the_names_of_a_log_in_json() -> None:
    """The help of --json promises objects, for tools that look for names."""
    shown = as_object(line("worker 0 serves process=supervisor"))
    assert datetime.fromisoformat(shown.pop("time")).timestamp() == 1_790_000_000
    text = "worker 0 serves process=supervisor"
    assert shown == {"level": "notice", "module": "SERVER", "text": text, "source": "supervisor.py:7"}


def test_each_line_is_new_once() -> None:
    """One of another process may come between known ones; of equal ones each counts."""
    before = [line("a", 1), line("b", 3), line("b", 3)]
    after = [line("a", 1), line("between", 2), line("b", 3), line("b", 3), line("b", 3), line("c", 4)]
    assert later(before, after) == [line("between", 2), line("b", 3), line("c", 4)]
    assert later(after, after) == []
    assert later([], before) == before


def test_a_module_that_is_not_there_is_told_with_those_that_are() -> None:
    class Agent:
        def query(self, kind: str, names: list[str]) -> Iterator[dict[str, str]]:
            assert (kind, names) == ("log", ["module"])
            yield from ({"module": "SERVER"}, {"module": "AGENT"})

    check_module(Agent(), "AGENT")  # type: ignore[arg-type]  what it asks of a Client
    with pytest.raises(ClientError, match="has no module 'agent'; give one of: AGENT, SERVER"):
        check_module(Agent(), "agent")  # type: ignore[arg-type]  the same
