"""What the core publishes on the board (shm/statistics/board.py): busiest addresses, newest connections, planes' rows.

The core writes the board between two turns of the forwarder, at most once a second, in short steps.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from core.addresses.addresses import spelling
from core.forwarder.forward import Busiest
from core.links.base import Base
from core.links.plane import Plane
from shm.statistics import board
from shm.statistics.board import AddressRow, ConnectionRow, Outcomes

PERIOD_NS: Final = 1_000_000_000
STEP_NS: Final = 1_000_000  # between the steps of a pass over very many addresses while the core is idle
ROWS: Final = 10  # addresses in a step, some 0.1 ms


class Shown(Protocol):
    """The board that `Display` writes to."""

    def write(self, content: bytes) -> None: ...


class Display:
    """Keeps the board up to date."""

    def __init__(self, base: Base, shown: Shown) -> None:
        self._base = base
        self._shown = shown
        self._busiest = Busiest(base.forwarder)
        self._due = 0
        self._filling: Iterator[None] | None = None  # at the end of a pass
        self._last = b""
        self._write(board.Board())

    def step(self, now: int) -> int:
        """Do one step of what is due at `now`, in nanoseconds.

        Return the nanoseconds until the next step is due; 0: once messages have passed.
        """
        if now < self._due:
            return self._due - now
        if self._filling is None:
            if (found := self._busiest.step()) is None:
                return STEP_NS
            self._filling = self._fill(*found)
        if next(self._filling, self) is not self:
            return 0
        self._filling = None
        self._due = now + PERIOD_NS
        return PERIOD_NS

    def _fill(self, handles: list[int], other: int) -> Iterator[None]:
        """Write the rows of now, a few in each step."""
        content = board.Board(other=other)
        for start in range(0, len(handles), ROWS):
            rows = map(self._row, handles[start : start + ROWS])
            content.addresses += [row for row in rows if row is not None]
            yield
        content.other_outcomes = Outcomes(*self._busiest.outcomes())
        newest = self._base.connections.newest(board.CONNECTIONS)
        content.connections = [
            ConnectionRow(worker, *(board.short(text) for text in (one.container, one.host, one.role, one.user)))
            for worker, one in newest
        ]
        content.open_connections = len(self._base.connections)
        for plane in self._base.planes:
            if type(plane).show is not Plane.show:
                yield
                plane.show(content)
        yield
        self._write(content)

    def _row(self, handle: int) -> AddressRow | None:
        address = self._base.addresses.of_handle(handle)
        if address is None:
            return None
        info = self._base.forwarder.address_info(handle)
        return AddressRow(
            board.short(spelling(address.key)),
            address.rule.distribution,
            info["deliveries"],
            info["outgoing"],
            info["incoming"],
            Outcomes(*self._busiest.outcomes(handle)),
            *self._busiest.load(handle),
        )

    def _write(self, content: board.Board) -> None:
        data = board.encode(content)
        if data != self._last:
            self._shown.write(data)
            self._last = data
