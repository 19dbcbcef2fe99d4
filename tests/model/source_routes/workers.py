"""Declarations of the kinds of route workers (docs/source-routes.md, "Workers").

Notation: onward / return / payload; `F;x` is F followed by the list x, `R++x` two lists joined.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from routerd.source_routes.address import Address, Route, local

Form = Literal["amqp", "bare"]
Wrapped = Literal["hide", "copy"] | tuple[str, ...]
Unwrapped = Literal["restore", "merge"]
MARKER = local("_scope")  # stands in a return route where the route entered other scopes
TRAILING_DIGITS = re.compile(r"([0-9]+)\Z")


class Count(Struct, frozen=True):
    """Cuts off a number of addresses."""

    count: int


class KeepScopes(Struct, frozen=True):
    """Cuts off addresses before the first in these scopes or in none; the pattern's group is the scope."""

    scopes: frozenset[str]
    pattern: re.Pattern[str] = TRAILING_DIGITS


class ToMarker(Struct, frozen=True):
    """Cuts off everything up to and including the first marker."""


Strip = Count | KeepScopes | ToMarker


class Worker(Struct, frozen=True, kw_only=True):
    """A route worker. With `crosses` it moves messages to another scope, untraced ones as partial."""

    address: Address
    crosses: bool = False

    @property
    def addresses(self) -> tuple[Address, ...]:
        """All addresses that lead to the route worker."""
        return (self.address,)


class Tracer(Worker, frozen=True, kw_only=True):
    """A route worker that may put an address, usually its own, in front of the return route."""

    trace: bool = False
    trace_as: Address | None = None

    @property
    def traced(self) -> Address | None:
        return (self.trace_as or self.address) if self.trace else None


class Forward(Tracer, frozen=True, kw_only=True):
    """`F;x / r / p` -> `x / r / p`; tracing: `x / F;r / p`."""


class Static(Worker, frozen=True, kw_only=True):
    """`F;x / r / p` -> `R++x / r / p`. It cannot trace: a reply would come here and be sent to R again."""

    route: Route


class Proxy(Worker, frozen=True, kw_only=True):
    """`P;x / r` -> `R++x / Pi;r`, and for the reply `Pi;x / h;r` -> `x / P;r`."""

    route: Route
    inner: Address

    @property
    def addresses(self) -> tuple[Address, ...]:
        return (self.address, self.inner)


class Extend(Tracer, frozen=True, kw_only=True):
    """`B;x / r` -> `R++x / B;r`: crosses scopes without wrapping; a Collapse at their end undoes it."""

    route: Route
    trace: bool = True
    marker: bool = False


class Collapse(Tracer, frozen=True, kw_only=True):
    """`C;x / a++r` -> `x / C;r`, where a is the trace of the scopes in between."""

    strip: Strip
    trace: bool = True


class Transform(Tracer, frozen=True, kw_only=True):
    """`F;x / r / p` -> `x / r / use(p)`."""

    use: str  # a function, as module:function


class PayloadWrap(Tracer, frozen=True, kw_only=True):
    """`F;x / r / p` -> `R++x / r / {meta, p}`; R ends at the unwrapper and may be empty."""

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
    """Forwards like Forward and sends one copy of the payload to R."""

    route: Route
    trace: bool = True


class Discovery(Worker, frozen=True, kw_only=True):
    """Out: `D;x / r / p` -> `R / [] / enc(x, r, p)`, stripping: `R++x / r / p`.

    In: `D / any / enc(x, r, p)` -> `x / D;r / p`, stripping: `D;x / a++r / p` -> `x / D;r / p`. A message
    comes in if it arrives at the inner address or from one of the uplinks, whatever its content. Without
    `strip` it wraps.
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
