"""Where an attach leads: what it asks for, and the credit that its sender has."""

from collections.abc import Callable, Container
from typing import Final

import msgspec

from core.addresses.addresses import BEYOND, Address, Identity
from core.addresses.names import Names
from core.edge.place import shared
from shm.contract.payloads import Attach, Error

MAX_CAPACITY: Final = 1_000_000  # of one link: more is a mistake, and credit is a promise of memory

NO_COORDINATOR: Final = Error(
    "amqp:precondition-failed",
    "The router can't coordinate transactions by itself, a linkRoute to a coordinator must be configured "
    "to use transactions.",
)
NOT_FOUND: Final = Error("amqp:not-found", "Node not found")
NO_CONNECTION: Final = Error("amqp:internal-error", "The link's connection is unknown to the router core")
NO_CONTROL: Final = Error("qd:connection-role", "Attach to an inter-router connection without a control link")
NO_ROOM: Final = Error("amqp:resource-limit-exceeded", "The router core has no place for this link")
TOO_MANY: Final = "amqp:resource-limit-exceeded"
NO_RECEIVER: Final = Error(
    "amqp:not-allowed", "Nobody receives from a route table; attach at its address, a slash and an endpoint"
)
NOT_YOURS: Final = Error("amqp:not-allowed", "This address of a route table is for RMR connections")
NO_SOURCE: Final = Error("amqp:precondition-failed", "A receiver needs a source address or a dynamic source")


NOT_HERE: Final = Error(
    "amqp:not-allowed", "This address is another router's, with all that goes there; attach at that router"
)
OURS: Final = Error("amqp:not-allowed", "The router itself receives from this address, and nobody else")

ELSEWHERE: Final = "RHA"  # classes of keys of other routers and areas
SUMMARIES: Final = "RH"  # classes of keys that stand for all addresses of a router
RMR: Final = "rmr"  # role of connections that speak RMR
EDGE: Final = "edge"  # of those between an edge router and an interior router

Counts = Callable[[int], dict[str, int]]  # of an address, by its handle (core.forwarder.forward)


class Terminus(msgspec.Struct, frozen=True):
    """Where an accepted attach leads: ``text`` None: anonymous; ``generated``: to be told to the peer."""

    text: str | None
    generated: bool = False


def decide(attach: Attach, me: Identity, names: Names) -> Terminus | Error:
    """What an attach asks for, or why it cannot have that; whether the address is available comes later."""
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


def denied(
    address: Address, attach: Attach, tables: Container[str], role: str, counts: Counts
) -> Error | None:
    """Why a connection of a role may have no link to an address; ``tables`` are the keys of route tables'."""
    outgoing = attach.outgoing
    if outgoing and (address.key[0] in ELSEWHERE or address.key == BEYOND):
        return NOT_HERE
    if outgoing and address.ours and (role != EDGE or not shared(address.key)):
        return OURS
    if address.rule.distribution == "unavailable":
        return NOT_FOUND
    table, dollar, rest = address.key.partition("/$")
    answer = not outgoing and rest.startswith("conn/")  # its worker lets no tables through
    if role != RMR and dollar and table in tables and not answer:
        return NOT_YOURS
    if outgoing and address.key in tables:
        return NO_RECEIVER
    return None if attach.restored or role == EDGE else _full(address, outgoing, counts)


def _full(address: Address, outgoing: bool, counts: Counts) -> Error | None:
    """Why there may be no other link of a client: ``address`` has as many as are allowed."""
    limit = address.rule.max_receivers if outgoing else address.rule.max_senders
    if not limit:
        return None
    found = counts(address.handle)
    there = found["outgoing"] - found["own"] if outgoing else found["incoming"]
    if there < limit:
        return None
    what, which = ("receivers", "maxReceivers") if outgoing else ("senders", "maxSenders")
    return Error(
        TOO_MANY,
        f"the address has {there} {what} here, and may have no more ({which} of its address entity: {limit})",
    )


def granted_credit(attach: Attach, address: Address | None, most: int) -> tuple[int, int]:
    """The capacity of a link, and what its worker is told of it: 0, if that is what it has said itself."""
    capacity = max(1, min(attach.capacity, most))
    own = 0 if address is None or attach.outgoing else address.rule.capacity
    if attach.restored or attach.request or not 0 < own < capacity:
        return capacity, 0
    return own, own


def granted(attach: Attach, capacity: int) -> int:
    """Credit that the sender of a link has already."""
    return max(-MAX_CAPACITY, min(attach.granted, capacity)) if attach.restored else 0


def told_text(attach: Attach, address: Address | None, terminus: Terminus) -> bytes | None:
    """What the next router is told of the address of a link where the address stands for many."""
    if attach.outgoing or address is None or not (address.key[0] in SUMMARIES or address.key == BEYOND):
        return None
    return None if terminus.text is None else terminus.text.encode("utf-8", "surrogateescape")
