"""The entity type `router.address`."""

from collections.abc import Iterable

import msgspec

from core.addresses.addresses import Address, Rule
from core.forwarder.forward import Uses
from core.interior.network_adapter import NetworkAdapter
from core.link_routes.routes import Route, Routes
from core.management.entity_type import Column, Table, counted, key_columns

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


def _difference(total: str, part: str, attribute: str, description: str) -> Column:
    return Column(attribute, "integer", description, lambda r: r.info.get(total, 0) - r.info.get(part, 0))


def _key(row: AddressRow) -> str:
    return row.address.key


def _priority(row: AddressRow) -> int:
    return row.info.get("priority", -1)


class Addresses(Table):
    """Addresses in use, without those that only messages to nobody have named."""

    listed = False
    NAME = "router.address"
    DESCRIPTION = "An address that the router uses."
    COLUMNS = (
        *key_columns("router.address", "Key of the address: its class, its phase if it is mobile, and its text.", _key),
        Column("key", "string", "Key of the address, as in `name`.", _key),
        Column("distribution", "string", "How the router distributes messages.", lambda r: r.distribution),
        counted("own", "inProcess", "Receivers in the router itself."),
        _difference("outgoing", "own", "subscriberCount", "Receivers attached to this router."),
        Column("remoteCount", "integer", "Other routers that have receivers.", lambda r: len(r.routers)),
        Column("containerCount", "integer", "Connected brokers that serve the link route.", lambda r: r.containers),
        Column("remoteHostRouters", "list", "Ids of the other routers that have receivers.", lambda r: r.routers),
        _difference("ingress", "from_core", "deliveriesIngress", "Deliveries from clients."),
        Column("deliveriesEgress", "integer", "Deliveries to clients.", lambda r: r.egress),
        counted("transit", "deliveriesTransit", "Deliveries to other routers."),
        counted("to_core", "deliveriesToContainer", "Deliveries to the router itself."),
        counted("from_core", "deliveriesFromContainer", "Deliveries from the router itself."),
        counted("to_containers", "deliveriesEgressRouteContainer", "Deliveries to brokers."),
        counted("from_containers", "deliveriesIngressRouteContainer", "Deliveries from brokers."),
        Column("transitOutstanding", "list", "Unsettled deliveries by next router.", lambda r: r.outstanding or None),
        Column("trackedDeliveries", "integer", "Unsettled deliveries to other routers.", lambda r: sum(r.outstanding)),
        Column("priority", "integer", "Priority of all messages; -1: each has its own.", _priority),
        counted("redirected", "deliveriesRedirectedToFallback", "Deliveries that went to the fallback address."),
    )

    def rows(self) -> list[Address | Route]:
        core = self._view.core
        routes = core.find(Routes)
        entries = [] if routes is None else routes.entries()
        uses = Uses(core.forwarder)
        portions = self._view.portions(core.addresses.entries().portions())
        return [*(one for portion in portions for one in uses.among(portion)), *entries]

    def among(self, name: str | None, identity: str | None) -> Iterable[Address | Route]:
        """Return the address or link route of this key."""
        core, key = self._view.core, name or "" if identity is None else identity
        routes, known = core.find(Routes), core.addresses.known(key)
        route = None if routes is None else routes.known(key)
        return [*([] if known is None else Uses(core.forwarder).among([known])), *([] if route is None else [route])]

    def row(self, address: Address | Route) -> AddressRow:
        """Return an address with its present counts, or without any if it is gone."""
        core, adapter = self._view.core, self._view.core.find(NetworkAdapter)
        if isinstance(address, Route):
            known = Address(address.key, 0, Rule("linkBalanced"))
            routers = [] if adapter is None else adapter.names(address.remotes)
            return AddressRow(known, {}, routers, len(address.hosts))
        try:
            info = core.forwarder.address_info(address.handle)
            if adapter is None:
                return AddressRow(address, info)
            outstanding = list(adapter.nodes.outstanding(address.handle).values())
            return AddressRow(address, info, adapter.router_ids(address.handle), 0, outstanding)
        except KeyError:
            return AddressRow(address, {})
