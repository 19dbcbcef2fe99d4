"""Where an attach leads: the address that it requests, and the credit of its sender."""

from collections.abc import Callable, Container
from typing import Final

import msgspec

from core.addresses.addresses import BEYOND, UNSEARCHABLE, Address, Identity
from core.addresses.names import Names
from shm.contract.patterns import SEARCH_TOO_LONG
from shm.contract.payloads import Attach, Error
from shm.native import LINK_CREDIT, LINK_CREDIT_MOST

MAX_CAPACITY: Final = 1_000_000  # of one link: more is a mistake, since credit is a promise of memory

NO_COORDINATOR: Final = Error(
    "amqp:precondition-failed",
    "The router can't coordinate transactions by itself, a linkRoute to a coordinator must be configured "
    "to use transactions.",
)
NOT_FOUND: Final = Error("amqp:not-found", "Node not found")
LONG_SEARCH: Final = Error("amqp:resource-limit-exceeded", SEARCH_TOO_LONG)
NO_CONNECTION: Final = Error("amqp:internal-error", "The link's connection is unknown to the router core")
NO_CONTROL: Final = Error("qd:connection-role", "Attach to an inter-router connection without a control link")
NO_ROOM: Final = Error("amqp:resource-limit-exceeded", "The router core's table of links is full")
TOO_MANY: Final = "amqp:resource-limit-exceeded"
NO_RECEIVER: Final = Error(
    "amqp:not-allowed", "A route table has no receivers; attach to its address, a slash and an endpoint"
)
NOT_YOURS: Final = Error("amqp:not-allowed", "This address of a route table is reserved for RMR connections")
NO_SOURCE: Final = Error("amqp:precondition-failed", "A receiver needs a source address or a dynamic source")


NOT_HERE: Final = Error("amqp:not-allowed", "This address belongs to another router; attach at that router")
OURS: Final = Error("amqp:not-allowed", "Only the router itself receives from this address")

ELSEWHERE: Final = "RHA"  # classes of keys that belong to other routers and areas
SUMMARIES: Final = "RH"  # classes of keys that stand for all addresses of a router
OWN: Final = ("M0$management", "M0_$qd.")  # beginnings of keys that each router has for itself
RMR: Final = "rmr"  # role of connections that speak RMR
EDGE: Final = "edge"  # role of connections between an edge router and an interior router
INTER_ROUTER: Final = "inter-router"
ROUTE_CONTAINER: Final = "route-container"  # role of connections to brokers

Counts = Callable[[int], dict[str, int]]  # returns an address's counts by its handle (core.forwarder.forward)


class Terminus(msgspec.Struct, frozen=True):
    """Where an accepted attach leads.

    ``text`` is None for an anonymous link, and ``generated`` means that the peer has to be told the text.
    """

    text: str | None
    generated: bool = False


class Place(msgspec.Struct, frozen=True):
    """Where a link of an edge connection leads.

    ``address`` is None if messages name their own; ``handle`` is its handle now. ``wants_override``: the peer
    asks messages where they go. ``capacity`` bounds the link's credit.
    """

    address: Address | None = None
    handle: int = 0
    wants_override: bool = False
    capacity: int = MAX_CAPACITY


def shared(key: str) -> bool:
    """Whether the other end of an edge connection needs to know the receivers of an address."""
    return key.startswith("M") and not key.startswith(OWN)


def decide(attach: Attach, me: Identity, names: Names) -> Terminus | Error:
    """Return where an attach leads, or why it is refused.

    Whether its address is available is decided later.
    """
    if attach.coordinator:
        return NO_COORDINATOR
    if attach.dynamic:
        if attach.outgoing:
            whose = f"_edge/{me.router_id}" if me.edge else f"_topo/{me.area}/{me.router_id}"
            return Terminus(f"amqp:/{whose}/temp.{names.discriminator()}", generated=True)
        return Terminus(f"amqp:/_$temp.{names.discriminator()}", generated=True)
    if not attach.address:
        return NO_SOURCE if attach.outgoing else Terminus(None)
    return Terminus(attach.address)


def denied(address: Address, attach: Attach, tables: Container[str], role: str, counts: Counts) -> Error | None:
    """Return why a connection of a role may not attach to an address, or None.

    ``tables``: route tables' keys.
    """
    outgoing = attach.outgoing
    if outgoing and (address.key[0] in ELSEWHERE or address.key == BEYOND):
        return NOT_HERE
    if outgoing and address.to_core and (role != EDGE or not shared(address.key)):
        return OURS
    if address.rule.distribution == "unavailable":
        return LONG_SEARCH if address.rule is UNSEARCHABLE else NOT_FOUND
    table, dollar, rest = address.key.partition("/$")
    answer = not outgoing and rest.startswith("conn/")  # its worker lets no tables through
    if role != RMR and dollar and table in tables and not answer:
        return NOT_YOURS
    if outgoing and address.key in tables:
        return NO_RECEIVER
    return None if attach.restored or role == EDGE else _full(address, outgoing, counts)


def _full(address: Address, outgoing: bool, counts: Counts) -> Error | None:
    """Return why a client may attach no further link to the address, or None."""
    limit = address.rule.max_receivers if outgoing else address.rule.max_senders
    if not limit:
        return None
    found = counts(address.handle)
    there = found["outgoing"] - found["own"] if outgoing else found["incoming"]
    if there < limit:
        return None
    what, which = ("receivers", "maxReceivers") if outgoing else ("senders", "maxSenders")
    return Error(
        TOO_MANY, f"the address has {there} {what} here, which is the limit ({which} of its address entity: {limit})"
    )


class Credit(msgspec.Struct, frozen=True):
    """The credit of a link: ``capacity`` in deliveries, of which its sender has ``granted`` already.

    ``grows``: nobody has configured it, so that a fast sender gets more. ``reported`` is the value for the link's
    worker, 0 if that knows it already.
    """

    capacity: int
    granted: int = 0
    grows: bool = False
    reported: int = 0


def credit_of(attach: Attach, address: Address | None = None, place: Place | None = None) -> Credit:
    """Return the credit of a link, which leads to ``place`` if it is one of an edge connection."""
    most = MAX_CAPACITY if place is None else place.capacity
    capacity = max(1, min(attach.capacity or LINK_CREDIT, most))
    own = 0 if address is None or attach.outgoing else address.rule.capacity
    granted = max(-MAX_CAPACITY, attach.granted) if attach.restored else 0
    if not (attach.restored or attach.request) and 0 < own < capacity:
        return Credit(own, reported=own)
    grows = not (attach.capacity or own or attach.outgoing) and most >= LINK_CREDIT_MOST
    return Credit(capacity, granted if grows else min(granted, capacity), grows)


def reported_text(attach: Attach, address: Address | None, terminus: Terminus) -> bytes | None:
    """Return the address text that the next router gets, where a link's address stands for many."""
    if attach.outgoing or address is None or not (address.key[0] in SUMMARIES or address.key == BEYOND):
        return None
    return None if terminus.text is None else terminus.text.encode("utf-8", "surrogateescape")
