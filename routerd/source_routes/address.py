"""Addresses and routes, and how they are written: `D1=>B2`, `64#name` (facts source-routes 1.1).

An address is a type from 0 to 255 and octets. Type 0 is a name in the router's own space, usually text.
"""

from typing import NamedTuple

from routerd.source_routes.refusal import Reason, RefusedError
from shm.contract.text import printable

LOCAL = 0
ARROW = "=>"


class Address(NamedTuple):
    """One stop of a route."""

    type: int
    value: bytes

    def __str__(self) -> str:
        text = self.value.decode("utf-8", "backslashreplace")
        shown = printable(text) or "''"
        return shown if self.type == LOCAL else f"{self.type}#{shown}"


Route = tuple[Address, ...]


def local(name: str) -> Address:
    """The address of type 0 with that name."""
    return Address(LOCAL, name.encode("utf-8", "surrogateescape"))


def parse_address(text: str) -> Address:
    """`NAME`, or `TYPE#NAME`. Raises RefusedError: there is no name, no such type, or a second `#`."""
    kind, mark, name = text.strip().rpartition("#")
    if not name:
        raise _bad(text, "has no name")
    if not mark:
        return local(name)
    if "#" in kind:
        raise _bad(text, "has more than one '#'")
    if not (kind.isascii() and kind.isdigit() and len(kind) <= 3 and int(kind) <= 255):
        raise _bad(text, "has a type that is no number from 0 to 255 before its '#'")
    return Address(int(kind), name.encode("utf-8", "surrogateescape"))


def parse_route(text: str) -> Route:
    """Addresses joined by `=>`; empty text is the empty route. Raises RefusedError."""
    if not text.strip():
        return ()
    return tuple(parse_address(part) for part in text.split(ARROW))


def show_route(route: Route) -> str:
    """A route as `parse_route` reads it, where its names are such that it can."""
    return ARROW.join(map(str, route))


def _bad(text: str, why: str) -> RefusedError:
    return RefusedError(Reason.BAD_ADDRESS, f"address {text.strip()[:60]!r} {why}")
