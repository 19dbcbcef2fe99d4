"""Where an attach leads: what it asks for, and the credit that its sender has."""

from typing import Final

import msgspec

from core.addresses import Identity
from core.names import Names
from shm.payloads import Attach, Error

MAX_CAPACITY: Final = 1_000_000  # of one link: more is a mistake, and credit is a promise of memory

NO_COORDINATOR: Final = Error(
    "amqp:precondition-failed",
    "The router can't coordinate transactions by itself, a linkRoute to a coordinator must be configured "
    "to use transactions.",
)
NO_SOURCE: Final = Error("amqp:precondition-failed", "A receiver needs a source address or a dynamic source")


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


def granted(attach: Attach, capacity: int) -> int:
    """Credit that the sender of a link has already."""
    return max(-MAX_CAPACITY, min(attach.granted, capacity)) if attach.restored else 0
