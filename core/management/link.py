"""The entity type `router.link`."""

import logging

import msgspec

from core.interior.network_adapter import NetworkAdapter
from core.links.link import Link
from core.management.entity_type import Column, Table, constant, type_column
from core.management.request import BAD_REQUEST, ManagementError, Request, Response
from core.management.view import View
from shm.contract.payloads import C_DETACH, Detach, Error

LOGGER = logging.getLogger("AGENT")

DETACHED = Error("amqp:link:detach-forced", "Link detached by management request")
DEFAULT_PRIORITY = 4
_GONE = {"outgoing": 0}
_WORKERS_KNOW = frozenset({
    "undeliveredCount", "unsettledCount", "deliveryCount", "ingressHistogram", "creditAvailable",
    "zeroCreditSeconds",
})  # fmt: skip


class LinkRow(msgspec.Struct, frozen=True):
    """A link with its counts (Forwarder.link_info) and the number of its connection.

    For a receiver the worker reports how many deliveries wait, its credit, and how long it has had none.
    """

    link: Link
    info: dict[str, int]
    connection: int | None
    undelivered: int = 0
    credit: int = 0
    dry: int = 0  # seconds without credit
    origins: dict[int, int] = {}  # deliveries by index of the ingress router, without those from here

    def count(self, name: str) -> int:
        return self.info.get(name, 0)


def _count(name: str, attribute: str, description: str) -> Column:
    return Column(attribute, "integer", description, lambda r: r.info.get(name, 0))


def _unsettled(row: LinkRow) -> int:
    return max(0, row.count("count") - row.undelivered)


def _deliveries(row: LinkRow) -> int:
    """Return the number of deliveries. Those that wait for a receiver's credit do not count."""
    return max(0, row.count("deliveries") - row.undelivered)


def _priority(row: LinkRow) -> int:
    """Return the priority of a link; for a client's, the default of messages (AMQP 1.0 part 3.2.1)."""
    return row.link.priority if row.link.kind else DEFAULT_PRIORITY


def _ingress(row: LinkRow) -> list[int] | None:
    """Return the deliveries by index of the ingress router. The first is this router."""
    if not row.link.outgoing:
        return None
    here = _deliveries(row) - sum(row.origins.values())
    return [here, *(row.origins.get(bit, 0) for bit in range(1, max(row.origins, default=0) + 1))]


class Links(Table):
    """Links attached to the router. UPDATE of adminStatus to disabled detaches one."""

    listed = False
    NAME = "router.link"
    DESCRIPTION = "A link attached to the router."
    OPERATIONS = ("UPDATE", "READ")
    COLUMNS = (
        Column("name", "string", "Name of the link.", lambda r: r.link.name),
        Column("identity", "string", "Number of the link.", lambda r: str(r.link.identity)),
        type_column("router.link"),
        Column("linkName", "string", "Name of the link.", lambda r: r.link.name),
        Column("linkType", "string", "What the link is for.", lambda r: r.link.type),
        Column("linkDir", "string", "in: messages come to the router.",
               lambda r: "out" if r.link.outgoing else "in"),
        Column("owningAddr", "string", "Key of its address.", lambda r: r.link.owning),
        _count("capacity", "capacity", "Deliveries it may hold."),
        Column("peer", "string", "The link it is connected through to.", constant(None)),
        Column("undeliveredCount", "integer", "Deliveries not sent yet.", lambda r: r.undelivered),
        Column("unsettledCount", "integer", "Deliveries not settled.", _unsettled),
        Column("deliveryCount", "integer", "Deliveries that came, or were sent.", _deliveries),
        Column("connectionId", "string", "Number of its connection.",
               lambda r: None if r.connection is None else str(r.connection)),
        Column("adminStatus", "string", "Set to disabled to detach it.", constant("enabled"), update=True),
        Column("operStatus", "string", "Always up.", constant("up")),
        _count("presettled", "presettledCount", "Deliveries that were settled when they came."),
        _count("dropped", "droppedPresettledCount", "Presettled deliveries that were dropped."),
        _count("accepted", "acceptedCount", "Accepted deliveries."),
        _count("rejected", "rejectedCount", "Rejected deliveries."),
        _count("released", "releasedCount", "Released deliveries."),
        _count("modified", "modifiedCount", "Modified deliveries."),
        _count("delayed_1", "deliveriesDelayed1Sec", "Deliveries settled after more than 1 s."),
        _count("delayed_10", "deliveriesDelayed10Sec", "Deliveries settled after more than 10 s."),
        _count("stuck", "deliveriesStuck", "Deliveries not settled for more than 10 s."),
        Column("ingressHistogram", "list", "Deliveries by index of the router where they came in.", _ingress),
        Column("priority", "integer", "Priority of a link between routers; else that of messages.",
               _priority),
        _count("rate", "settleRate", "Settlements per second."),
        Column("creditAvailable", "integer", "Credit its sender has.", lambda r: r.credit),
        Column("zeroCreditSeconds", "integer", "Seconds without credit.", lambda r: r.dry),
    )  # fmt: skip

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view
        self._seen: dict[int, tuple[int, int, int]] = {}  # reports of workers, by identity

    def rows(self) -> list[Link]:
        return self._view.links.entries()

    def prepare(self, page: list[Link], names: list[str]) -> None:
        """Ask the workers about receivers if the columns need it."""
        self._seen = {}
        if _WORKERS_KNOW.intersection(names) and (asked := [link for link in page if link.outgoing]):
            self._seen = self._view.look(asked)

    def row(self, link: Link) -> LinkRow:
        """Return a link with its present counts."""
        view = self._view
        info = view.core.forwarder.link_info(link.worker, link.link, link.generation) or _GONE
        queued, credit, since = 0, max(0, info.get("granted", 0)), info.get("dry_since", 0)
        if link.outgoing:
            queued, credit, since = self._seen.get(link.identity, (0, 0, 0))
        number = view.connection_number(link.worker, link.connection)
        dry = view.seconds_since(since) if since else 0
        return LinkRow(link, info, number, queued, credit, dry, self._origins(link))

    def _origins(self, link: Link) -> dict[int, int]:
        network_adapter = self._view.core.find(NetworkAdapter)
        if network_adapter is None or not link.outgoing:
            return {}
        return network_adapter.nodes.origins(link.worker, link.link, link.generation)

    def update(self, request: Request) -> Response:
        """Detach the link."""
        row = self.find(request.name, request.identity)
        changes = request.attributes
        for name, value in changes.items():
            if name not in self.columns:
                raise ManagementError(BAD_REQUEST, f"router.link has no attribute {name!r}")
            if name == "adminStatus" and value not in ("enabled", "disabled"):
                raise ManagementError(BAD_REQUEST, f"adminStatus: {value!r} is neither enabled nor disabled")
            if name != "adminStatus" and value != self.columns[name](row):
                raise ManagementError(BAD_REQUEST, f"{name} of a link cannot be changed")
        if "adminStatus" not in changes:
            raise ManagementError(BAD_REQUEST, "only adminStatus of a link can be changed; give it")
        request.requester.check()
        if changes["adminStatus"] == "enabled":
            return Response(200, self.values(row))
        self._detach(row.link)
        LOGGER.info("link %r detached by request of [C%s]", row.link.name, request.requester.connection)
        return Response(200, self.values(row) | {"adminStatus": "disabled", "operStatus": "down"})

    def _detach(self, link: Link) -> None:
        payload = msgspec.msgpack.encode(Detach(link.link, link.generation, DETACHED))
        forwarder = self._view.core.forwarder

        def act() -> None:
            forwarder.post_control(link.worker, C_DETACH, payload)
            forwarder.publish()

        self._view.command(act)
