"""The kinds of workers, as declared: what each one has beside its address (facts source-routes 3, 7.5).

Notation in the comments: onward / return / payload; `F;x` is F followed by the list x.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from routerd.source_routes.address import Address, Route, local
from routerd.source_routes.metadata import Unwrapped, Wrapped
from routerd.source_routes.wrapped import Form

MARKER = local("_scope")  # pushed onto the return route where a route enters scopes that it leaves again
TRAILING_DIGITS = re.compile(r"([0-9]+)\Z")


class Count(Struct, frozen=True):
    """Cut off so many addresses."""

    count: int


class KeepScopes(Struct, frozen=True):
    """Cut off addresses up to the first of one of these scopes, or of none; the pattern's group tells it."""

    scopes: frozenset[str]
    pattern: re.Pattern[str] = TRAILING_DIGITS


class ToMarker(Struct, frozen=True):
    """Cut off everything up to the first marker, and it."""


Strip = Count | KeepScopes | ToMarker


class Worker(Struct, frozen=True, kw_only=True):
    """`crosses`: it moves messages into another scope; untraced, that leaves the return route partial."""

    address: Address
    crosses: bool = False

    @property
    def addresses(self) -> tuple[Address, ...]:
        """All that lead to it."""
        return (self.address,)


class Tracer(Worker, frozen=True, kw_only=True):
    """One that may write an address of its own, usually its address, in front of the return route."""

    trace: bool = False
    trace_as: Address | None = None

    @property
    def traced(self) -> Address | None:
        return (self.trace_as or self.address) if self.trace else None


class Forward(Tracer, frozen=True, kw_only=True):
    """`F;x / r / p` -> `x / r / p`; tracing: `x / F;r / p`."""


class Static(Worker, frozen=True, kw_only=True):
    """`F;x / r / p` -> `R++x / r / p`. It cannot trace: a reply would come back here, and go to R."""

    route: Route


class Proxy(Worker, frozen=True, kw_only=True):
    """`P;x / r` -> `R++x / Pi;r`, and back: `Pi;x / h;r` -> `x / P;r`."""

    route: Route
    inner: Address

    @property
    def addresses(self) -> tuple[Address, ...]:
        return (self.address, self.inner)


class Extend(Tracer, frozen=True, kw_only=True):
    """`B;x / r` -> `R++x / B;r`: through further scopes without wrapping. Whoever leaves them collapses."""

    route: Route
    trace: bool = True
    marker: bool = False


class Collapse(Tracer, frozen=True, kw_only=True):
    """`C;x / a++r` -> `x / C;r`, a being what the scopes in between have traced."""

    strip: Strip
    trace: bool = True


class Transform(Tracer, frozen=True, kw_only=True):
    """`F;x / r / p` -> `x / r / change(p)`."""

    change: Callable[[bytes], bytes]
    use: str = ""  # where the router finds it, as module:function


class PayloadWrap(Tracer, frozen=True, kw_only=True):
    """`F;x / r / p` -> `R++x / r / {meta, p}`; R, which may be empty, ends at the unwrapper."""

    route: Route = ()
    meta: Mapping[str, bytes] = MappingProxyType({})


class PayloadUnwrap(Tracer, frozen=True, kw_only=True):
    """`F;x / r / {meta, p}` -> `x / r / p`."""


class Wrap(Worker, frozen=True, kw_only=True):
    """`W;x / r / p` -> `K / s / enc(x, r, p)`; K leads to the unwrapper."""

    route: Route
    returning: Route = ()
    form: Form = "amqp"
    metadata: Wrapped = "hide"


class Unwrap(Tracer, frozen=True, kw_only=True):
    """`U / any / enc(x, r, p)` -> `x / r / p`; tracing, as a channel does: `x / U;r / p`."""

    form: Form = "amqp"
    metadata: Unwrapped = "restore"


class Tee(Tracer, frozen=True, kw_only=True):
    """As a forwarding worker, and one copy of the payload goes to R."""

    route: Route
    trace: bool = True


class Discovery(Worker, frozen=True, kw_only=True):
    """Out: `D;x / r / p` -> `R / [] / enc(x, r, p)`, stripping: `R++x / r / p`.

    In: `D / any / enc(x, r, p)` -> `x / D;r / p`, stripping: `D;x / a++r / p` -> `x / D;r / p`. A message
    is coming in if it comes to the inner address, or from one of the uplinks; its content decides nothing.
    Without `strip` it wraps.
    """

    route: Route
    inner: Address | None = None
    uplinks: frozenset[str] = frozenset()
    strip: Strip | None = None
    form: Form = "amqp"
    metadata: Wrapped = "hide"

    @property
    def addresses(self) -> tuple[Address, ...]:
        return (self.address,) if self.inner is None else (self.address, self.inner)


def stripped(route: Route, how: Strip) -> tuple[Route, bool]:
    """What is left of a return route, and whether what was to be cut off was found there."""
    if isinstance(how, Count):
        return route[how.count :], len(route) >= how.count
    if isinstance(how, ToMarker):
        found = MARKER in route
        return (route[route.index(MARKER) + 1 :], True) if found else (route, False)
    at = 0
    while at < len(route) and (scope := _scope(route[at], how)) is not None and scope not in how.scopes:
        at += 1
    return route[at:], True


def _scope(address: Address, how: KeepScopes) -> str | None:
    match = how.pattern.search(address.value.decode("utf-8", "replace"))
    return match[1] if match else None
