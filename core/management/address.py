"""The entity type `router.address`."""

import msgspec

from core.addresses.addresses import Address, Rule
from core.interior.network_adapter import NetworkAdapter
from core.link_routes.routes import Route, Routes
from core.management.entity_type import Column, Table, constant, type_column
from core.management.view import View

_MULTICAST = {"control": "multicast", "flood": "flood"}
_EGRESS = {"deliveries": 1, "to_core": -1, "transit": -1}


class AddressRow(msgspec.Struct, frozen=True):
    """An address and its counts (core.forwarder.forward.Forwarder.address_info)."""

    address: Address
    info: dict[str, int]
    routers: list[str] = []  # ids of those that have receivers
    containers: int = 0  # connections of brokers that serve it
    outstanding: list[int] = []  # deliveries to other routers, by next hop

    @property
    def distribution(self) -> str:
        """The distribution as management shows it: messages between routers are multicast."""
        return _MULTICAST.get(self.address.rule.distribution, self.address.rule.distribution)

    @property
    def egress(self) -> int:
        return sum(self.info.get(name, 0) * sign for name, sign in _EGRESS.items())


def _count(name: str, attribute: str, description: str) -> Column:
    return Column(attribute, "integer", description, lambda r: r.info.get(name, 0))


def _zero(attribute: str, description: str) -> Column:
    return Column(attribute, "integer", description, constant(0))


def _difference(total: str, part: str, attribute: str, description: str) -> Column:
    return Column(attribute, "integer", description, lambda r: r.info.get(total, 0) - r.info.get(part, 0))


class Addresses(Table):
    """Addresses in use, without those that only messages to nobody have named."""

    listed = False
    NAME = "router.address"
    DESCRIPTION = "An address that the router knows."
    COLUMNS = (
        Column("name", "string", "Key: class, phase if mobile, and text.", lambda r: r.address.key),
        Column("identity", "string", "Key of the address.", lambda r: r.address.key),
        type_column("router.address"),
        Column("key", "string", "Key of the address.", lambda r: r.address.key),
        Column("distribution", "string", "How messages are distributed.", lambda r: r.distribution),
        _count("own", "inProcess", "Receivers in the router itself."),
        _difference("outgoing", "own", "subscriberCount", "Receivers attached to this router."),
        Column("remoteCount", "integer", "Other routers with receivers.", lambda r: len(r.routers)),
        Column("containerCount", "integer", "Brokers that serve it.", lambda r: r.containers),
        Column("remoteHostRouters", "list", "Ids of other routers with receivers.", lambda r: r.routers),
        _difference("ingress", "from_core", "deliveriesIngress", "Deliveries from clients."),
        Column("deliveriesEgress", "integer", "Deliveries to clients.", lambda r: r.egress),
        _count("transit", "deliveriesTransit", "Deliveries on to other routers."),
        _count("to_core", "deliveriesToContainer", "Deliveries to the router itself."),
        _count("from_core", "deliveriesFromContainer", "Deliveries from the router itself."),
        _count("to_containers", "deliveriesEgressRouteContainer", "Deliveries to brokers."),
        _count("from_containers", "deliveriesIngressRouteContainer", "Deliveries from brokers."),
        Column("transitOutstanding", "list", "Unsettled deliveries to other routers, by next hop.",
               lambda r: r.outstanding or None),
        Column("trackedDeliveries", "integer", "Unsettled deliveries to other routers.",
               lambda r: sum(r.outstanding)),
        Column("priority", "integer", "Priority of its messages; -1: their own.",
               lambda r: r.info.get("priority", -1)),
        _count("redirected", "deliveriesRedirectedToFallback", "Deliveries to its fallback."),
    )  # fmt: skip

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view
        self._network_adapter = view.core.find(NetworkAdapter)

    def rows(self) -> list[Address | Route]:
        core = self._view.core
        used = core.forwarder.address_used
        routes = core.find(Routes)
        entries = [] if routes is None else routes.entries()
        return [*(one for one in core.addresses.entries() if used(one.handle)), *entries]

    def row(self, address: Address | Route) -> AddressRow:
        """Return an address with its present counts, or without any if it is gone."""
        core = self._view.core
        if isinstance(address, Route):
            known = Address(address.key, 0, Rule("linkBalanced"))
            routers = [] if self._network_adapter is None else self._network_adapter.names(address.remotes)
            return AddressRow(known, {}, routers, len(address.hosts))
        try:
            info = core.forwarder.address_info(address.handle)
            if self._network_adapter is None:
                return AddressRow(address, info)
            outstanding = list(self._network_adapter.nodes.outstanding(address.handle).values())
            return AddressRow(address, info, self._network_adapter.router_ids(address.handle), 0, outstanding)
        except KeyError:
            return AddressRow(address, {})
