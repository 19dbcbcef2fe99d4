"""Connectors: states that the workers report, kept for management. The core decides nothing here."""

import re
from collections import Counter
from itertools import islice

import msgspec

from core.links.plane import Plane
from shm.contract.payloads import ConnectorState
from shm.statistics.board import CONNECTORS, ERROR, Board, ConnectorRow, short

_NUMBER = re.compile(r"^\[C[0-9]+\] ")  # of the attempt: a label of a metric must not change with each
UP, GONE = "SUCCESS", "GONE"


class Connectors(Plane):
    """The state of each connector, by name."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[int, ConnectorState]] = {}
        self._failures: Counter[str] = Counter()  # attempts, by the connector's name

    def heard(self, worker: int, message: msgspec.Struct) -> bool:
        """Record the state of a connector that a worker reports."""
        if not isinstance(message, ConnectorState):
            return False
        if message.status == GONE:
            if message.name in self._states and self._states[message.name][0] == worker:  # no other has it now
                del self._states[message.name], self._failures[message.name]
            return True
        self._states[message.name] = (worker, message)
        self._failures[message.name] += _has_failed(message)
        return True

    def find(self, name: str) -> ConnectorState | None:
        """Return the last reported state of a connector, or None."""
        return self._states[name][1] if name in self._states else None

    def trouble(self, name: str) -> str:
        """Return the last error of a connector that is not connected, or an empty text."""
        state = self.find(name)
        return _NUMBER.sub("", state.message) if state is not None and _has_failed(state) else ""

    def show(self, board: Board) -> None:
        """Write the connectors onto the board."""
        board.connectors = [
            ConnectorRow(short(name), state.status == UP, self._failures[name], short(self.trouble(name), ERROR))
            for name, (_, state) in islice(self._states.items(), CONNECTORS)
        ]

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        """Forget the connectors of a dead worker: whoever has them next tells their states at once."""
        self._states = {name: (owner, state) for name, (owner, state) in self._states.items() if owner != worker}


def _has_failed(state: ConnectorState) -> bool:
    """Whether the state tells why an attempt has failed, or the connection has ended."""
    return state.status != UP and bool(state.message)
