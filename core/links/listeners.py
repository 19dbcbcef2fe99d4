"""Listeners: which workers serve each of them, kept for the metrics. The core decides nothing here."""

from itertools import islice

import msgspec

from core.links.connections import Connections
from core.links.plane import Plane
from shm.contract.payloads import Served
from shm.statistics.board import LISTENERS, Board, ListenerRow, short


class Listeners(Plane):
    """What each worker reports of the listeners, by name; those without a name count together."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._served: dict[int, dict[str, bool]] = {}  # by worker

    def heard(self, worker: int, message: msgspec.Struct) -> bool:
        """Record the listeners that a worker serves, and those that it cannot serve."""
        if not isinstance(message, Served):
            return False
        self._served[worker] = message.listeners
        return True

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        """Forget what a dead worker served: its successor tells what it serves."""
        self._served.pop(worker, None)

    def show(self, board: Board) -> None:
        """Write the listeners onto the board."""
        names = dict.fromkeys(name for served in self._served.values() for name in served)
        board.listeners = [
            ListenerRow(
                short(name),
                [worker for worker, served in sorted(self._served.items()) if served.get(name)],
                self._connections.by_listener[name],
            )
            for name in islice(names, LISTENERS)
        ]
