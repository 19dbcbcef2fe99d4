"""The configuration of route workers and source routes, for workers and core (docs/source-routes.md)."""

from typing import Final

import msgspec

# The kinds of route workers, in the order of enum route_kind (workers/source_routes/table.c).
KINDS: Final = (
    "forward", "static", "proxy", "extend", "collapse", "payload-wrap", "payload-unwrap", "wrap", "unwrap",
    "tee", "discovery", "transform",
)  # fmt: skip
# The reasons of refusals, in the order of enum route_reason.
REASONS: Final = (
    "empty-route", "not-mine", "no-next", "surplus-route", "bad-address", "bad-annotation", "bad-encoding",
    "hops", "onward", "return", "address-octets", "route-octets", "nesting", "metadata", "message-octets",
    "access", "not-implemented", "unusable-return", "transform",
)  # fmt: skip


class Stop(msgspec.Struct, array_like=True, frozen=True):
    """An address in a route: its type, the octets of its name, and its text form."""

    type: int
    name: bytes
    text: str


class RouteWorkerSetup(msgspec.Struct, array_like=True, frozen=True):
    """One ``routeWorker`` entity.

    ``strip`` is count, scopes, marker or empty; ``metadata`` is hide, copy, keys, restore or merge.
    ``pattern`` is a regular expression that finds the scope in a name; if it is empty, the digits at the
    name's end are the scope. ``use`` is a transform's function as module:function. ``allow`` and
    ``inner_allow`` name sources (docs/source-routes.md, Who may send where); None permits all but uplinks.
    ``send_to`` lists permitted next addresses; None permits all.
    """

    identity: str
    kind: str
    address: Stop
    inner: Stop | None = None
    route: list[Stop] = []
    returning: list[Stop] = []
    traced: Stop | None = None
    crosses: bool = False
    marks: bool = False
    strip: str = ""
    strip_count: int = 0
    scopes: list[str] = []
    pattern: str = ""
    form: str = "amqp"
    metadata: str = "hide"
    keys: list[str] = []
    uplinks: list[str] = []
    allow: list[str] | None = None
    inner_allow: list[str] | None = None
    send_to: list[Stop] | None = None
    use: str = ""


class SourceRoutesSetup(msgspec.Struct, array_like=True, frozen=True):
    """All route workers, the limits of source-routed messages, and the classes of metadata keys.

    ``hops``, ``onward`` and ``returning`` bound numbers of addresses, ``…_octets`` sizes. Unless ``on``, the
    router does not look for source routes in messages.
    """

    on: bool = False
    workers: list[RouteWorkerSetup] = []
    hops: int = 64
    onward: int = 32
    returning: int = 64
    nesting: int = 8
    meta_keys: int = 16
    address_octets: int = 255
    route_octets: int = 4096
    meta_octets: int = 1024
    lenient_tail: bool = False
    classes: dict[str, str] = {}
