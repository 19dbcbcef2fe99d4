"""The entity type `router.link`."""

import msgspec

from core.links import Link
from core.management.noun import Column, Table, constant, type_column
from core.management.view import View

_GONE = {"outgoing": 0}


class LinkRow(msgspec.Struct, frozen=True):
    """A link, its counts (Forwarder.link_info), and the number of its connection."""

    link: Link
    info: dict[str, int]
    connection: int | None

    def count(self, name: str) -> int:
        return self.info.get(name, 0)


def _count(name: str, attribute: str, description: str) -> Column:
    return Column(attribute, "integer", description, lambda r: r.info.get(name, 0))


def _unsettled(row: LinkRow) -> int:
    return max(0, row.count("count") - row.count("undelivered"))


class Links(Table):
    """Links attached to the router."""

    NAME = "router.link"
    DESCRIPTION = "A link attached to the router."
    COLUMNS = (
        Column("name", "string", "Name of the link.", lambda r: r.link.name),
        Column("identity", "string", "Number of the link.", lambda r: str(r.link.identity)),
        type_column("router.link"),
        Column("linkName", "string", "Name of the link.", lambda r: r.link.name),
        Column("linkType", "string", "What the link is for.", constant("endpoint")),
        Column(
            "linkDir",
            "string",
            "in: messages come to the router.",
            lambda r: "out" if r.link.outgoing else "in",
        ),
        Column(
            "owningAddr",
            "string",
            "Key of its address.",
            lambda r: r.link.address.key if r.link.address else None,
        ),
        _count("capacity", "capacity", "Deliveries it may hold."),
        Column("peer", "string", "The link it is connected through to.", constant(None)),
        Column(
            "undeliveredCount", "integer", "Deliveries not sent yet.", lambda r: r.info.get("undelivered", 0)
        ),
        Column("unsettledCount", "integer", "Deliveries not settled.", _unsettled),
        _count("deliveries", "deliveryCount", "Deliveries in all."),
        Column(
            "connectionId",
            "string",
            "Number of its connection.",
            lambda r: None if r.connection is None else str(r.connection),
        ),
        Column("adminStatus", "string", "enabled.", constant("enabled")),
        Column("operStatus", "string", "up.", constant("up")),
        _count("presettled", "presettledCount", "Deliveries that were settled when they came."),
        _count("dropped", "droppedPresettledCount", "Of these, dropped for want of credit or receivers."),
        _count("accepted", "acceptedCount", "Accepted deliveries."),
        _count("rejected", "rejectedCount", "Rejected deliveries."),
        _count("released", "releasedCount", "Released deliveries."),
        _count("modified", "modifiedCount", "Modified deliveries."),
        _count("delayed_1", "deliveriesDelayed1Sec", "Deliveries settled after more than 1 s."),
        _count("delayed_10", "deliveriesDelayed10Sec", "Deliveries settled after more than 10 s."),
        Column("deliveriesStuck", "integer", "Deliveries unsettled for long.", constant(0)),
        Column("ingressHistogram", "list", "Deliveries by the router they came from.", constant(None)),
        Column("priority", "integer", "Priority of a link between routers.", constant(0)),
        _count("rate", "settleRate", "Settlements per second."),
        Column(
            "creditAvailable", "integer", "Credit its sender has.", lambda r: max(0, r.info.get("granted", 0))
        ),
        Column("zeroCreditSeconds", "integer", "Seconds without credit.", constant(0)),
    )

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

    def rows(self) -> list[Link]:
        return self._view.links.entries()

    def row(self, link: Link) -> LinkRow:
        """A link with its counts as they are now."""
        info = self._view.core.forwarder.link_info(link.worker, link.link, link.generation)
        return LinkRow(link, info or _GONE, self._view.connection_number(link.worker, link.connection))
