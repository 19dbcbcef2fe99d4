"""MAU and MAR: which addresses have receivers at a router.

The two dialects encode entries differently, see `core.interior.dispatch` (version 1) and
`core.interior.skupper` (version 2). Keys and treatments are those of version 1 everywhere else.
"""

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from core.interior import dispatch, skupper
from core.interior.message import AREA, BadMessageError, Fields, encode, mobile_address, symbols

UPDATE: Final = "MAU"
REQUEST: Final = "MAR"
MOST_ADDRESSES: Final = 100_000


class MobileRequest(msgspec.Struct, frozen=True):
    """A router's request for another's addresses; it has those up to ``have_seq``."""

    router: str
    have_seq: int
    version: int = dispatch.VERSION

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Decode a body. Raises BadMessageError."""
        return cls(fields.router(), fields.number("have_seq"), fields.number("pv", 0))

    def encode(self, to: str) -> bytes:
        """Encode the message to the requested router."""
        body = {"id": self.router, "pv": self.version, "area": AREA, "have_seq": self.have_seq}
        return encode(mobile_address(to), REQUEST, symbols(body))


class MobileUpdate(msgspec.Struct, frozen=True):
    """Addresses of a router: keys with treatments, either all of them (``absolute``) or the changes.

    ``instance`` is that of the router's run, which only routerds tell; 0: it is unknown. So do they ``until``: these
    are the first of all addresses, and the changes up to that number bring the others; 0: they are all.
    """

    router: str
    mobile_seq: int
    present: Mapping[str, int]
    gone: tuple[str, ...] = ()
    absolute: bool = False
    version: int = dispatch.VERSION
    instance: int = 0
    until: int = 0

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Decode a body in the form that its version tells. Raises BadMessageError."""
        absolute = "exist" in fields
        if absolute and ("add" in fields or "del" in fields):
            raise BadMessageError("it contains all addresses and changes at once")
        version = fields.number("pv", 0)
        form = skupper if version >= skupper.VERSION else dispatch
        return cls(
            fields.router(),
            fields.number("mobile_seq"),
            form.present(fields, "exist" if absolute else "add", MOST_ADDRESSES),
            () if absolute else form.gone(fields, MOST_ADDRESSES),
            absolute,
            version,
            fields.number("instance", 0),
            fields.number("until", 0),
        )

    def encode(self, to: str) -> bytes:
        """Encode the message to an address in the form of its version."""
        form = skupper if self.version >= skupper.VERSION else dispatch
        head = {"id": self.router, "pv": self.version, "area": AREA, "mobile_seq": self.mobile_seq}
        run = {name: number for name in ("instance", "until") if (number := getattr(self, name))}
        tail = form.all_of(self.present) if self.absolute else form.changes(self.present, self.gone)
        return encode(to, UPDATE, symbols(head | run | tail))
