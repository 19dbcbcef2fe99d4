"""Entities about addresses (qpid-dispatch 1.19 management schema, router.config.*)."""

from typing import Annotated, Literal

from routerd.config.entities.attribute import Entity, State, about
from routerd.config.entities.router import Distribution

Direction = Literal["in", "out"]


class Address(Entity, frozen=True, kw_only=True, tag="router.config.address"):
    """An address entity says how messages to addresses below a prefix, or of a pattern, are distributed."""

    prefix: Annotated[str, about("First tokens of the addresses; `a.b` is the pattern `a.b.#`.")] | None = None
    pattern: Annotated[str, about("Pattern of the addresses: `*` is one token, `#` is any number.")] | None = None
    distribution: Annotated[
        Distribution, about("Receivers that get a message: one, the least loaded one, all, or none.")
    ] = "balanced"
    waypoint: Annotated[bool, about("Whether messages pass through a broker on their way.")] = False
    ingress_phase: Annotated[int, about("Phase in which senders send.", ge=0, le=9)] | None = None
    egress_phase: Annotated[int, about("Phase in which receivers receive.", ge=0, le=9)] | None = None
    priority: Annotated[int, about(
        "Priority of all messages to the address; 9 is the most urgent.", ge=0, le=9, default="the message's"
    )] | None = None  # fmt: skip
    enable_fallback: Annotated[bool, about("Whether undeliverable messages go to a fallback destination.")] = False
    max_senders: Annotated[int, about(
        "Links on which clients of this router send to one such address.", ge=1, default="any number"
    )] | None = None  # fmt: skip
    max_receivers: Annotated[int, about(
        "Links on which clients of this router receive from one such address.", ge=1, default="any number"
    )] | None = None  # fmt: skip
    link_capacity: Annotated[int, about(
        "Credit per link of a client that sends to the address, where its listener gives more.", ge=1,
        le=1_000_000, default="the listener's")] | None = None  # fmt: skip


class LinkRoute(Entity, frozen=True, kw_only=True, tag="router.config.linkRoute"):
    """A linkRoute names addresses whose links are connected through to a broker."""

    prefix: Annotated[str, about("First tokens of the addresses.")] | None = None
    pattern: Annotated[str, about("Pattern of the addresses: `*` is one token, `#` is any number.")] | None = None
    add_external_prefix: Annotated[str, about("Text that is put before the address at the broker.")] | None = None
    del_external_prefix: (
        Annotated[str, about("Text that is removed from the beginning of the address at the broker.")] | None
    ) = None
    container_id: Annotated[str, about("Container id of the broker.")] | None = None
    connection: Annotated[str, about("Name of the connector or listener of the broker.")] | None = None
    distribution: Annotated[Literal["linkBalanced"], about("How links are spread over brokers.")] = "linkBalanced"
    direction: Annotated[Direction, about("`in` for senders, `out` for receivers.", old="dir")]


class LinkRouteState(State, frozen=True, kw_only=True):
    oper_status: Annotated[Literal["inactive", "active"], about("Whether a broker is connected.")] = "inactive"


class AutoLink(Entity, frozen=True, kw_only=True, tag="router.config.autoLink"):
    """An autoLink is a link that the router itself attaches."""

    address: Annotated[str, about("Address in the router.", old="addr")]
    direction: Annotated[Direction, about("`in` receives from the broker, `out` sends to it.", old="dir")]
    phase: Annotated[int, about(
        "Phase of the address.", ge=0, le=9, default="0 for out, 1 for in, 0 for a fallback"
    )] | None = None  # fmt: skip
    container_id: Annotated[str, about("Container id of the broker.")] | None = None
    connection: Annotated[str, about("Name of the connector or listener of the broker.")] | None = None
    external_address: Annotated[str, about("Address at the broker.", old="externalAddr", default="address")] | None = (
        None
    )
    fallback: Annotated[bool, about("Whether the link is the fallback destination of its address.")] = False


class AutoLinkState(State, frozen=True, kw_only=True):
    link_ref: Annotated[str, about("Identity of the link.")] | None = None
    oper_status: Annotated[
        Literal["inactive", "attaching", "failed", "active", "quiescing", "idle"], about("State of the link.")
    ] = "inactive"
    last_error: Annotated[str, about("Why the link failed last.")] | None = None


class Exchange(Entity, frozen=True, kw_only=True, tag="router.config.exchange"):
    """An exchange is an address that forwards messages to other addresses by their subject."""

    address: Annotated[str, about("Address of the exchange.")]
    phase: Annotated[int, about("Phase of the address.", ge=0, le=9)] | None = None
    alternate_address: Annotated[str, about("Address for messages that no binding matches.")] | None = None
    alternate_phase: Annotated[int, about("Phase of the alternate address.", ge=0, le=9)] | None = None
    match_method: Annotated[Literal["amqp", "mqtt"], about("Syntax of the binding keys.")] = "amqp"


class ExchangeState(State, frozen=True, kw_only=True):
    binding_count: Annotated[int, about("Bindings of the exchange.")] = 0
    received_count: Annotated[int, about("Messages received.")] = 0
    dropped_count: Annotated[int, about("Messages that no binding matched.")] = 0
    forwarded_count: Annotated[int, about("Messages sent on.")] = 0
    diverted_count: Annotated[int, about("Messages sent to the alternate address.")] = 0


class Binding(Entity, frozen=True, kw_only=True, tag="router.config.binding"):
    """A binding says which subjects of an exchange go to which address."""

    exchange_name: Annotated[str, about("Name of the exchange.")]
    binding_key: Annotated[str, about("Pattern of the subjects.", default="all subjects")] | None = None
    next_hop_address: Annotated[str, about("Address to which the messages go.")]
    next_hop_phase: Annotated[int, about("Phase of that address.", ge=0, le=9)] | None = None


class BindingState(State, frozen=True, kw_only=True):
    matched_count: Annotated[int, about("Messages that matched.")] = 0
