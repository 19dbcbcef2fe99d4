"""MAU and MAR: which addresses have receivers at a router.

The two dialects have other entries, see `core.interior.dispatch` (version 1) and `core.interior.skupper`
(version 2). In here, and everywhere else, keys and treatments are those of version 1.
"""

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from core.amqp import codec as wire
from core.interior import dispatch, skupper
from core.interior.message import AREA, BadMessageError, Fields, encode, mobile_address, symbols

UPDATE: Final = "MAU"
REQUEST: Final = "MAR"
MOST_ADDRESSES: Final = 100_000


class MobileRequest(msgspec.Struct, frozen=True):
    """A router asks another for its addresses; it has those of ``have_seq``."""

    router: str
    have_seq: int
    version: int = dispatch.VERSION

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """From a body. Raises BadMessageError."""
        return cls(fields.router(), fields.number("have_seq"), fields.number("pv", 0))

    def encode(self, to: str) -> bytes:
        """The message to the router asked."""
        body = symbols(
            (
                ("id", wire.string(self.router)),
                ("pv", wire.long(self.version)),
                ("area", wire.string(AREA)),
                ("have_seq", wire.long(self.have_seq)),
            )
        )
        return encode(mobile_address(to), REQUEST, body)


class MobileUpdate(msgspec.Struct, frozen=True):
    """Addresses that a router has, by key with their treatments: all of them (absolute), or what changed."""

    router: str
    mobile_seq: int
    present: Mapping[str, int]
    gone: tuple[str, ...] = ()
    absolute: bool = False
    version: int = dispatch.VERSION

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """From a body in either form, told apart by its version. Raises BadMessageError."""
        absolute = "exist" in fields
        if absolute and ("add" in fields or "del" in fields):
            raise BadMessageError("it has all addresses and changes at once")
        version = fields.number("pv", 0)
        form = skupper if version >= skupper.VERSION else dispatch
        return cls(
            fields.router(),
            fields.number("mobile_seq"),
            form.present(fields, "exist" if absolute else "add", MOST_ADDRESSES),
            () if absolute else form.gone(fields, MOST_ADDRESSES),
            absolute,
            version,
        )

    def encode(self, to: str) -> bytes:
        """The message in the form of its version to an address."""
        form = skupper if self.version >= skupper.VERSION else dispatch
        head = (
            ("id", wire.string(self.router)),
            ("pv", wire.long(self.version)),
            ("area", wire.string(AREA)),
            ("mobile_seq", wire.long(self.mobile_seq)),
        )
        tail = form.all_of(self.present) if self.absolute else form.changes(self.present, self.gone)
        return encode(to, UPDATE, symbols((*head, *tail)))
