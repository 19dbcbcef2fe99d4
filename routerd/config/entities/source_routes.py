"""Entities of source routes: route workers, and limits of all messages (docs/source-routes.md)."""

from typing import Annotated, Literal

from routerd.config.entities.attribute import Entity, State, about
from routerd.config.formats.source import listed

Kind = Literal[
    "forward", "static", "proxy", "extend", "collapse", "transform", "payload-wrap", "payload-unwrap", "wrap",
    "unwrap", "tee", "discovery",
]  # fmt: skip
Form = Literal["amqp", "bare"]
Mode = Literal["wrap", "strip"]


class RouteWorker(Entity, frozen=True, kw_only=True, tag="router.config.routeWorker"):
    """A routeWorker is one hop of source routes, inside the router."""

    kind: Annotated[Kind, about("What the route worker does to messages.")]
    address: Annotated[str, about("Address of the route worker: a name, or TYPE#NAME.")]
    route: Annotated[str, about(
        "Route by which the route worker sends, as A=>B: its own, that of a tee's copies, or the one to the "
        "unwrapper.")] | None = None  # fmt: skip
    inner: Annotated[str, about("Second address of the route worker, for messages from its other side.")] | None = None
    trace: Annotated[bool, about(
        "Whether the route worker writes itself into return routes.", default="yes for extend, collapse, tee"
    )] | None = None  # fmt: skip
    trace_as: Annotated[str, about("Address that the route worker writes instead of its own.")] | None = None
    scope_change: Annotated[bool, about("Whether the route worker moves messages into another scope.")] = False
    mode: Annotated[Mode, about("How a discovery route worker keeps the scopes between out of return routes.")] = "wrap"
    strip_count: Annotated[int, about("Addresses of other scopes to cut off return routes.", ge=0, le=255)] | None = (
        None
    )
    keep_scopes: (
        Annotated[str, about("Scopes whose addresses are kept, separated by commas; others are cut off.")] | None
    ) = None
    scope_pattern: Annotated[str, about(
        "Regular expression of RE2 whose group is the scope of an address.", default="the digits at its end"
    )] | None = None  # fmt: skip
    marker: Annotated[
        bool, about("Whether the route worker marks where other scopes begin, or cuts off up to the mark.")
    ] = False
    format: Annotated[Form, about("Encoding of a wrapped message.")] = "amqp"
    return_route: Annotated[str, about("Return route of a wrapper's messages.", default="none")] | None = None
    metadata: Annotated[str, about(
        "For a wrapper: hide, copy or the keys to copy. For an unwrapper: restore or merge.",
        default="hide, restore")] | None = None  # fmt: skip
    use: Annotated[str, about("Function of a transform, as module:function.")] | None = None
    uplinks: Annotated[str, about("Connectors from which messages come in to a discovery route worker.")] | None = None
    allow: Annotated[str, about(
        "Who may send to the route worker: local, worker:, user:, link:, listener:, uplink:NAME; commas "
        "between.", default="local")] | None = None  # fmt: skip
    inner_allow: Annotated[str, about("Who may send to the route worker's inner address.", default="local")] | None = (
        None
    )
    send_to: Annotated[str, about(
        "Addresses to which the route worker may send, separated by commas.", default="all"
    )] | None = None  # fmt: skip

    @property
    def traces(self) -> bool:
        """Whether the route worker writes itself, or another address, into return routes."""
        return self.kind in ("extend", "collapse", "tee") if self.trace is None else self.trace

    @property
    def strip(self) -> str:
        """How the route worker cuts off addresses of other scopes: count, scopes, marker, or empty: not at all."""
        if self.kind != "collapse" and (self.kind, self.mode) != ("discovery", "strip"):
            return ""
        return "count" if self.strip_count is not None else "scopes" if self.keep_scopes is not None else "marker"


class RouteWorkerState(State, frozen=True, kw_only=True):
    in_count: Annotated[int, about("Messages that have come to it.")] = 0
    out_count: Annotated[int, about("Messages that it has sent on.")] = 0
    refused_count: Annotated[int, about("Messages that were refused at it.")] = 0
    refused_by_reason: Annotated[dict[str, int] | None, about("Refused messages by reason.", kind="map")] = None


class SourceRoutes(Entity, frozen=True, kw_only=True, tag="router.config.sourceRoutes"):
    """sourceRoutes sets limits of every message with a source route, and the classes of its metadata keys."""

    hops: Annotated[int, about("Route workers that one message may pass.", ge=1, le=255)] = 64
    onward_addresses: Annotated[int, about("Addresses of an onward route.", ge=1, le=255)] = 32
    return_addresses: Annotated[int, about("Addresses of a return route.", ge=1, le=255)] = 64
    address_octets: Annotated[int, about("Octets of an address.", ge=1, le=65535)] = 255
    route_octets: Annotated[int, about("Octets of all addresses of a route.", ge=1, le=65535)] = 4096
    nesting: Annotated[int, about("Wrappers around each other.", ge=0, le=255)] = 8
    metadata_keys: Annotated[int, about("Keys of metadata.", ge=0, le=255)] = 16
    metadata_octets: Annotated[int, about("Octets of metadata.", ge=0, le=65535)] = 1024
    lenient_tail: Annotated[
        bool, about("Whether a zero octet may follow a BARE message of version 1, as some encoders write it.")
    ] = False
    append_keys: Annotated[str, about("Keys to which route workers may append.")] = "trace"
    local_keys: Annotated[str, about("Keys that do not leave their scope.")] | None = None
    sealed_keys: Annotated[str, about("Keys that a wrapper always hides.")] | None = None

    @property
    def classes(self) -> dict[str, list[str]]:
        """The declared keys by class; every other key is of class carry."""
        keys = {"append": self.append_keys, "local": self.local_keys, "sealed": self.sealed_keys}
        return {name: listed(text) for name, text in keys.items()}
