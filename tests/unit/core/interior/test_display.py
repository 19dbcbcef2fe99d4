"""What the network shows on the board: routers, the connections between them, and a neighbour's deliveries."""

from typing import Any

import pytest

from core.interior import network_adapter
from core.interior.network_adapter import NetworkAdapter
from shm.statistics.board import Board, EdgeRow, RouterRow
from tests.support.beds.control import Bed


class Known:
    """A router protocol that knows three other routers."""

    last_change = 0

    def nodes(self) -> list[dict[str, Any]]:
        links: list[tuple[str, str | None, int | None, dict[str, int]]] = [
            ("A", "", None, {"B": 1}),
            ("B", "B", 1, {"A": 2, "C": 3}),
            ("C", "B", 4, {"B": 3, "X": 1}),
            ("D", None, None, {}),
        ]
        keys = "id", "nextHop", "cost", "costs"
        return [dict(zip(keys, row, strict=True)) | {"index": bit} for bit, row in enumerate(links)]


def shown() -> Board:
    adapter = Bed(mode="interior").core.plane(NetworkAdapter)
    adapter.start(lambda _: Known())  # type: ignore[arg-type,return-value]  this is all that is called
    board = Board()
    adapter.show(board)
    return board


def test_routers_and_edges() -> None:
    """An edge has the larger of both ends' costs; one to a router that is not known is left out."""
    board = shown()
    assert board.routers == [RouterRow("B", "B", 1), RouterRow("C", "B", 4), RouterRow("D", "", None)]
    assert board.edges == [EdgeRow(0, 1, 2), EdgeRow(1, 2, 3)]


def test_the_number_of_edges_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The board has a place for so many."""
    monkeypatch.setattr(network_adapter, "EDGES", 1)
    assert shown().edges == [EdgeRow(0, 1, 2)]
