"""Workers of source routes, as worker processes and the core are told of them."""

from typing import Final

import msgspec

# Kinds as worker processes number them: workers/source_routes/table.c, enum route_kind.
KINDS: Final = (
    "forward", "static", "proxy", "extend", "collapse", "payload-wrap", "payload-unwrap", "wrap", "unwrap",
    "tee", "discovery", "transform",
)  # fmt: skip
# Reasons of refusals: enum route_reason.
REASONS: Final = (
    "empty-route", "not-mine", "no-next", "surplus-route", "bad-address", "bad-annotation", "bad-encoding",
    "hops", "onward", "return", "address-octets", "route-octets", "nesting", "metadata", "message-octets",
    "access", "not-implemented", "unusable-return", "transform",
)  # fmt: skip


class Stop(msgspec.Struct, array_like=True, frozen=True):
    """An address: its type, the octets of its name, and how it is written."""

    type: int
    name: bytes
    text: str


class RouteWorkerSetup(msgspec.Struct, array_like=True, frozen=True):
    """One worker. ``strip`` is count, scopes, marker or empty, ``metadata`` hide, copy, keys, restore, merge.

    ``pattern``: a regular expression that tells scopes, empty: the digits at the end of a name do.
    ``use``: a transform's function, as module:function.
    ``allow`` and ``inner_allow`` are names of sources (docs/source-routes.md), None: all but uplinks;
    ``send_to`` None: it may send to all.
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
    """All workers, the limits of every message with a source route, and its metadata keys by class.

    ``on``: somebody has asked for source routes at all; else messages are not looked at for them.
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
