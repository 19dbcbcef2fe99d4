"""Types of workers.pump: what the Python half asks of it stands with who asks, as Protocols; what the names
mean stands in pump.pyx."""

from collections.abc import Callable
from typing import Protocol

from shm.segment import Segments
from workers import (
    connectors,
    couplings,
    guard,
    listeners,
    message_log,
    neighbours,
    ockam,
    relays,
    rmr,
    senders,
    trace,
)
from workers.handler import Handler

class NativePump(neighbours.Pump, listeners.Pump, Protocol):
    def sign(self, router: str, edge: bool) -> None: ...
    @property
    def connections(self) -> int: ...
    @property
    def unsettled(self) -> int: ...
    def accept(self, accepting: bool) -> None: ...
    def withhold_credit(self) -> None: ...
    def digest(self, messages: bool, transactions: bool) -> None: ...
    def run(self, seconds: float) -> None: ...
    def leave(self) -> None: ...
    def come_back(self) -> None: ...
    def present(self) -> bool: ...
    def look(self, now: int) -> None: ...
    def connection_generations(self) -> list[tuple[int, int]]: ...

def sasl_extended() -> bool: ...
def sasl_configure(directory: str, name: str) -> None: ...

class NativeTrace(message_log.Switch, trace.Frames, Protocol): ...
class NativeDialler(connectors.Dialler, neighbours.Dialler, Protocol): ...

# segments, handler, own number, workers, doorbell, descriptor that wakes, microseconds to poll
Pump: Callable[[Segments, Handler, int, int, int, int, int], NativePump]
Trace: Callable[[NativePump], NativeTrace]
Dialler: Callable[[NativePump], NativeDialler]
Routes: Callable[[NativePump], senders.Engine]
Security: Callable[[NativePump], guard.Connections]
RmrTransport: Callable[[NativePump, rmr.Rmr], rmr.Transport]
OckamTransport: Callable[[NativePump, ockam.Ockam], ockam.Transport]
Coupler: Callable[[NativePump], couplings.Coupler]
Relayer: Callable[[NativePump, relays.Relays], relays.Relayer]
