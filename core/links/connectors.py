"""Connectors: what the workers told of theirs, for management. The core decides nothing here."""

import msgspec

from core.process.plane import Plane
from shm.contract.payloads import ConnectorState

LOST = "the worker that makes the connection died"


class Connectors(Plane):
    """How each connector does, by its name."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[int, ConnectorState]] = {}

    def heard(self, worker: int, message: msgspec.Struct) -> bool:
        """A worker says how one of its connectors does."""
        if not isinstance(message, ConnectorState):
            return False
        self._states[message.name] = (worker, message)
        return True

    def find(self, name: str) -> ConnectorState | None:
        """What is known of a connector."""
        return self._states[name][1] if name in self._states else None

    def forget_worker(self, worker: int, removed: bool = False) -> None:
        """A worker is dead: its connectors are connected no longer."""
        for name, (owner, state) in self._states.items():
            if owner == worker:
                self._states[name] = owner, ConnectorState(name, "CONNECTING", LOST, state.hosts)
