"""RA: a router announces the numbers of its newest link state and list of addresses to all routers.

It is sent at intervals, at shorter ones while the network is in flux, and at once when a number has changed.
"""

from typing import Final, Self

import msgspec

from core.interior.message import ALL_ROUTERS, AREA, Fields, encode

OPCODE: Final = "RA"
VERSION: Final = 1
FLUX_INTERVALS: Final = 2
# A distant router may not know yet where to forward the news, so it is repeated after this many seconds.
ECHO: Final = 1.0


class Advertisement(msgspec.Struct, frozen=True):
    """The sequence numbers that a router announces."""

    router: str
    instance: int
    ls_seq: int
    mobile_seq: int
    version: int = VERSION

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Decode a body. Raises BadMessageError."""
        return cls(
            fields.router(),
            fields.number("instance", 0),
            fields.number("ls_seq"),
            fields.number("mobile_seq"),
            fields.number("pv", 0),
        )

    def encode(self, to: str = ALL_ROUTERS) -> bytes:
        """Encode the message to all routers or to one."""
        body = {
            "id": self.router,
            "pv": self.version,
            "area": AREA,
            "instance": self.instance,
            "ls_seq": self.ls_seq,
            "mobile_seq": self.mobile_seq,
        }
        return encode(to, OPCODE, body)


class Schedule:
    """Decides when to advertise. Times are in seconds."""

    def __init__(self, stable: float, flux: float) -> None:
        self._stable = stable
        self._flux = flux
        self._last = float("-inf")
        self._changed = float("-inf")
        self._echo = float("inf")

    def topology_changed(self, now: float) -> None:
        """Treat the network as in flux for twice the shorter interval."""
        self._changed = now

    def in_flux(self, now: float) -> bool:
        return now - self._changed <= FLUX_INTERVALS * self._flux

    def due(self, now: float) -> bool:
        return now >= self._echo or now - self._last >= (self._flux if self.in_flux(now) else self._stable)

    def sent(self, now: float, news: bool) -> None:
        """Record an advertisement. ``news`` means that it announced new numbers."""
        self._last = now
        self._echo = now + ECHO if news else float("inf")
