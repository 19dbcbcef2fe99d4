"""Addresses and routes and their text form: `D1=>B2`, `64#name` (docs/source-routes.md).

An address is a type from 0 to 255 and octets. Type 0 is a name in the router's own space, usually text.
"""

from typing import NamedTuple

from shm.contract.text import printable

LOCAL = 0
ARROW = "=>"


class Address(NamedTuple):
    """One stop of a route: a type from 0 to 255 and at least one octet."""

    type: int
    value: bytes

    def __str__(self) -> str:
        text = self.value.decode("utf-8", "backslashreplace")
        shown = printable(text) or "''"
        return shown if self.type == LOCAL else f"{self.type}#{shown}"


Route = tuple[Address, ...]


def local(name: str) -> Address:
    """Return the address of type 0 with a name."""
    return Address(LOCAL, name.encode("utf-8", "surrogateescape"))


def parse_address(text: str) -> Address:
    """Read `NAME` or `TYPE#NAME`. Raises ValueError for an empty name, a bad type or a second `#`."""
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
    """Read addresses joined by `=>`; an empty text is the empty route. Raises ValueError."""
    if not text.strip():
        return ()
    return tuple(parse_address(part) for part in text.split(ARROW))


def show_route(route: Route) -> str:
    """Return a route's text; `parse_route` reads it back unless a name contains `=>`, `#`, or what is not printed."""
    return ARROW.join(map(str, route))


def _bad(text: str, why: str) -> ValueError:
    return ValueError(f"address {text.strip()[:60]!r} {why}")
