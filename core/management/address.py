"""The entity type `router.address`."""

import msgspec

from core.addresses import Address
from core.management.noun import Column, Table, constant, type_column
from core.management.view import View


class AddressRow(msgspec.Struct, frozen=True):
    """An address and its counts (core.forward.Forwarder.address_info)."""

    address: Address
    info: dict[str, int]


def _count(name: str, attribute: str, description: str) -> Column:
    return Column(attribute, "integer", description, lambda r: r.info.get(name, 0))


def _zero(attribute: str, description: str) -> Column:
    return Column(attribute, "integer", description, constant(0))


def _difference(total: str, part: str, attribute: str, description: str) -> Column:
    return Column(attribute, "integer", description, lambda r: r.info.get(total, 0) - r.info.get(part, 0))


class Addresses(Table):
    """Addresses in use."""

    NAME = "router.address"
    DESCRIPTION = "An address that the router knows."
    COLUMNS = (
        Column("name", "string", "Key: class, phase of mobile ones, text.", lambda r: r.address.key),
        Column("identity", "string", "The same.", lambda r: r.address.key),
        type_column("router.address"),
        Column("key", "string", "The same.", lambda r: r.address.key),
        Column(
            "distribution", "string", "How messages are distributed.", lambda r: r.address.rule.distribution
        ),
        _count("own", "inProcess", "Receivers in the router itself."),
        _difference("outgoing", "own", "subscriberCount", "Receivers attached to this router."),
        _zero("remoteCount", "Other routers with receivers."),
        _zero("containerCount", "Brokers that serve it."),
        Column("remoteHostRouters", "list", "Ids of those routers.", lambda r: []),
        _difference("ingress", "from_core", "deliveriesIngress", "Deliveries from clients."),
        _difference("deliveries", "to_core", "deliveriesEgress", "Deliveries to clients."),
        _zero("deliveriesTransit", "Deliveries on to other routers."),
        _count("to_core", "deliveriesToContainer", "Deliveries to the router itself."),
        _count("from_core", "deliveriesFromContainer", "Deliveries from the router itself."),
        _zero("deliveriesEgressRouteContainer", "Deliveries to brokers."),
        _zero("deliveriesIngressRouteContainer", "Deliveries from brokers."),
        Column("transitOutstanding", "list", "Unsettled deliveries to other routers.", constant(None)),
        _zero("trackedDeliveries", "Transit deliveries that are tracked."),
        Column(
            "priority",
            "integer",
            "Priority of its messages; -1: their own.",
            lambda r: r.info.get("priority", -1),
        ),
        _zero("deliveriesRedirectedToFallback", "Deliveries to its fallback."),
    )

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    def rows(self) -> list[Address]:
        return self._view.core.addresses.entries()

    def row(self, address: Address) -> AddressRow:
        """An address with its counts as they are now; one that is gone by now has none."""
        try:
            return AddressRow(address, self._view.core.forwarder.address_info(address.handle))
        except KeyError:
            return AddressRow(address, {})
