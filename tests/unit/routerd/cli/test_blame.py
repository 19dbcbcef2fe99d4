"""Links that stand, and what holds them up."""

from typing import Any

import pytest

from routerd.cli import blame
from routerd.cli.blame import explain, is_stuck


class Answering:
    """A client whose answers are the test's, in their order."""

    def __init__(self, *answers: list[dict[str, Any]]) -> None:
        self.answers = list(answers)

    def query(self, kind: str, names: list[str]) -> list[dict[str, Any]]:
        assert kind == "router.link"
        return [{name: row[name] for name in names if name in row} for row in self.answers.pop(0)]


def test_a_link_stands_that_a_window_holds_up_at_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends of what stands; a window that was shut for a moment is none."""
    monkeypatch.setattr(blame, "SHUT_SECONDS", 0)
    ways = {"1": "in", "2": "out", "3": "in", "4": "out"}
    rows: list[dict[str, Any]] = [{"identity": number, "linkDir": way} for number, way in ways.items()]
    first = [{"identity": number, "windowShut": number != "4"} for number in ways]
    second = [{"identity": number, "windowShut": number < "3"} for number in ways]
    explain(Answering(first, second), rows)  # type: ignore[arg-type]  # it answers as a client does
    assert [row.get("why") for row in rows] == ["its session's window is full", "its session takes no more", None, None]
    assert [is_stuck(row) for row in rows] == [True, True, False, False]


def test_nobody_looks_twice_where_no_window_is_shut() -> None:
    row = {"identity": "1", "linkDir": "out", "deliveriesStuck": 1}
    explain(Answering([{"identity": "1", "windowShut": False}]), [row])  # type: ignore[arg-type]  # the same
    assert row["why"] == "does not settle"
