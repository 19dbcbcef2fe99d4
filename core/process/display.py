"""What the core publishes on the board (shm/statistics/board.py): busiest addresses, newest connections, planes' rows.

The core writes the board between two turns of the forwarder, at most once a second, in short steps.
"""

from typing import Final, Protocol

from core.addresses.addresses import spelling
from core.forwarder.forward import Busiest
from core.links.base import Base
from shm.statistics import board
from shm.statistics.board import AddressRow, ConnectionRow, Outcomes

PERIOD_NS: Final = 1_000_000_000
STEP_NS: Final = 1_000_000  # between the steps of a pass over very many addresses while the core is idle


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
        self._last = b""
        self._write(board.Board())

    def step(self, now: int) -> int:
        """Do one step of what is due at `now`, in nanoseconds.

        Return the nanoseconds until the next step is due.
        """
        if now < self._due:
            return self._due - now
        found = self._busiest.step()
        if found is None:
            return STEP_NS
        handles, other = found
        content = board.Board(
            [row for handle in handles if (row := self._row(handle)) is not None],
            other,
            [
                ConnectionRow(worker, *(board.short(text) for text in (one.container, one.host, one.role, one.user)))
                for worker, one in self._base.connections.newest(board.CONNECTIONS)
            ],
            len(self._base.connections),
        )
        content.other_outcomes = Outcomes(*self._busiest.outcomes())
        for plane in self._base.planes:
            plane.show(content)
        self._write(content)
        self._due = now + PERIOD_NS
        return PERIOD_NS

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
