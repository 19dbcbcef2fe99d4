"""What the network shows on the board: routers, the connections between them, and a neighbour's deliveries."""

from typing import Any

import pytest

from bench.contract import C_ATTACH, C_CONNECTION_OPENED
from core.interior import network_adapter
from core.interior.network_adapter import NetworkAdapter
from shm.contract.payloads import Attach, ConnectionOpened
from shm.statistics.board import Board, EdgeRow, RouterRow
from tests.support.beds.control import Bed
from tests.support.beds.effort import Effort


class Known:
    """A router protocol that knows three other routers."""

    last_change = 0

    def tick(self, now: float) -> None:
        """Nothing is due."""

    def neighbour_up(self, neighbour: int, cost: int, dialect: str, told: int) -> None:
        """Nobody is greeted."""

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


def lines_of_a_show(others: int) -> int:
    """What a neighbour costs with control links, on whose connection there are so many others too."""
    bed = Bed(mode="interior")
    adapter = bed.core.plane(NetworkAdapter)
    adapter.start(lambda _: Known())  # type: ignore[arg-type,return-value]  this is all that is called
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "B", "h:1", role="inter-router"))
    for link, outgoing in ((0, False), (1, True)):
        bed.say(C_ATTACH, Attach(link, 1, 0, f"control-{outgoing}", outgoing, None, capabilities=["qd.router"]))
    bed.step()
    for link in range(2, 2 + others):
        bed.core.links.enter(0, Attach(link, 1, 0, f"routed{link}", False, None), routed="r")
    assert len(bed.core.links.of_connection(0, 0)) == 2 + others
    neighbour = adapter.inter_routers.numbered(1)
    assert neighbour is not None
    assert len(neighbour.own) == 2
    adapter.add_router(1, "B")
    adapter.set_link(1, 1)
    with Effort() as effort:
        adapter.show(Board())
    return effort.lines


def test_a_neighbour_with_many_links_costs_no_more() -> None:
    """Only the links that belong to the routers themselves are counted."""
    assert lines_of_a_show(0) == lines_of_a_show(100)


def test_the_number_of_edges_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The board has a place for so many."""
    monkeypatch.setattr(network_adapter, "EDGES", 1)
    assert shown().edges == [EdgeRow(0, 1, 2)]
