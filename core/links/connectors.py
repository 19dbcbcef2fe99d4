"""Connectors: states that the workers report, kept for management. The core decides nothing here."""

import msgspec

from core.links.plane import Plane
from shm.contract.payloads import ConnectorState

LOST = "the worker that owned the connection died"


class Connectors(Plane):
    """The state of each connector, by name."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[int, ConnectorState]] = {}

    def heard(self, worker: int, message: msgspec.Struct) -> bool:
        """Record the state of a connector that a worker reports."""
        if not isinstance(message, ConnectorState):
            return False
        self._states[message.name] = (worker, message)
        return True

    def find(self, name: str) -> ConnectorState | None:
        """Return the last reported state of a connector, or None."""
        return self._states[name][1] if name in self._states else None

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        """Show the connectors of a dead worker as connecting."""
        for name, (owner, state) in self._states.items():
            if owner == worker:
                self._states[name] = owner, ConnectorState(name, "CONNECTING", LOST, state.hosts)
