"""The entity type `router.link`."""

import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from core.interior.network_adapter import NetworkAdapter
from core.links.link import Link
from core.management.entity_type import Column, Table, constant, counted, type_column
from core.management.request import BAD_REQUEST, ManagementError, Request, Response
from core.management.view import View
from shm.contract.numbers import whole
from shm.contract.payloads import Detach, Error, SeenLink

LOGGER = logging.getLogger("AGENT")

DETACHED = Error("amqp:link:detach-forced", "Link detached by management request")
DEFAULT_PRIORITY = 4
_GONE = {"outgoing": 0}
WINDOW_SHUT: Final = "windowShut"
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
    shut: bool = False  # its session's window holds it up
    waits_for: int | None = None  # the number of the link that holds up its first stuck delivery
    origins: dict[int, int] = {}  # deliveries by index of the ingress router, without those from here

    def count(self, name: str) -> int:
        return self.info.get(name, 0)


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


def _direction(row: LinkRow) -> str:
    return "out" if row.link.outgoing else "in"


def _connection(row: LinkRow) -> str | None:
    return None if row.connection is None else str(row.connection)


def _waits_for(row: LinkRow) -> str | None:
    return None if row.waits_for is None else str(row.waits_for)


class Links(Table):
    """Links attached to the router. UPDATE of adminStatus to disabled detaches one."""

    listed = False
    NAME = "router.link"
    DESCRIPTION = "A link attached to the router."
    OPERATIONS = ("UPDATE", "READ")
    COLUMNS = (
        Column("name", "string", "Name of the link.", lambda r: r.link.name),
        Column("identity", "string", "Number of the link in this router.", lambda r: str(r.link.identity)),
        type_column("router.link"),
        Column("linkName", "string", "Name of the link.", lambda r: r.link.name),
        Column("linkType", "string", "Purpose of the link, such as endpoint or inter-router.", lambda r: r.link.type),
        Column("linkDir", "string", "Direction of messages: in to the router, or out.", _direction),
        Column("owningAddr", "string", "Key of the link's address.", lambda r: r.link.owning),
        counted("capacity", "capacity", "Deliveries that the link may hold."),
        Column("peer", "string", "Always empty.", constant(None)),
        Column("undeliveredCount", "integer", "Deliveries that are not sent yet.", lambda r: r.undelivered),
        Column("unsettledCount", "integer", "Deliveries that are not settled yet.", _unsettled),
        Column("deliveryCount", "integer", "Deliveries that were received or sent.", _deliveries),
        Column("connectionId", "string", "Number of the link's connection.", _connection),
        Column("adminStatus", "string", "enabled; disabled detaches the link.", constant("enabled"), update=True),
        Column("operStatus", "string", "Always up.", constant("up")),
        counted("presettled", "presettledCount", "Deliveries that arrived settled."),
        counted("dropped", "droppedPresettledCount", "Presettled deliveries that the router dropped."),
        counted("accepted", "acceptedCount", "Accepted deliveries."),
        counted("rejected", "rejectedCount", "Rejected deliveries."),
        counted("released", "releasedCount", "Released deliveries."),
        counted("modified", "modifiedCount", "Modified deliveries."),
        counted("delayed_1", "deliveriesDelayed1Sec", "Deliveries that were settled after more than 1 s."),
        counted("delayed_10", "deliveriesDelayed10Sec", "Deliveries that were settled after more than 10 s."),
        counted("stuck", "deliveriesStuck", "Deliveries that have not been settled for more than 10 s."),
        Column("ingressHistogram", "list", "Deliveries by the index of their ingress router.", _ingress),
        Column("priority", "integer", "Priority of a link between routers; 4 for any other link.", _priority),
        counted("rate", "settleRate", "Settled deliveries per second."),
        Column("creditAvailable", "integer", "Credit of the link's sender.", lambda r: r.credit),
        Column("zeroCreditSeconds", "integer", "Seconds since the sender has had no credit.", lambda r: r.dry),
        Column("waitsFor", "string", "Link that holds up the first stuck delivery of this one; only if asked for.",
               _waits_for),
        Column(WINDOW_SHUT, "boolean", "Whether the window of its session holds the link up; only if asked for.",
               lambda r: r.shut),
    )  # fmt: skip

    def __init__(self, view: View) -> None:
        super().__init__(view)
        for ours in ("waitsFor", WINDOW_SHUT):
            self.standard.remove(ours)  # qdrouterd's tools count on its columns
        self._seen: dict[int, SeenLink] = {}  # reports of workers, by identity

    def rows(self) -> Sequence[Link]:
        return self._view.core.links.entries()

    def among(self, name: str | None, identity: str | None) -> list[Link]:
        """Return the link with this number, or those of this name."""
        if identity is None:
            return self._view.core.links.named(name or "")
        number = whole(identity)
        link = None if number is None else self._view.core.links.identified(number)
        return [] if link is None else [link]

    def prepare(self, page: list[Link], names: list[str]) -> None:
        """Ask the workers about receivers if the columns need it, and about senders if their windows are asked for."""
        self._seen = {}
        every = WINDOW_SHUT in names
        if (every or _WORKERS_KNOW.intersection(names)) and (asked := [one for one in page if every or one.outgoing]):
            self._seen = self._view.poll(asked)

    def row(self, link: Link) -> LinkRow:
        """Return a link with its present counts."""
        view = self._view
        info = view.core.forwarder.link_info(link.worker, link.link, link.generation) or _GONE
        queued, credit, since = 0, max(0, info.get("granted", 0)), info.get("dry_since", 0)
        seen = self._seen.get(link.identity, (0, 0, 0, 0))
        if link.outgoing:
            queued, credit, since, _ = seen
        number = view.connection_number(link.worker, link.connection)
        dry = view.seconds_since(since) if since else 0
        return LinkRow(link, info, number, queued, credit, dry, bool(seen[3]), self._holder(link), self._origins(link))

    def _holder(self, link: Link) -> int | None:
        core = self._view.core
        where = core.forwarder.stuck_at(link.worker, link.link, link.generation)
        holder = core.links.find(*where) if where is not None else None
        return None if holder is None else holder.identity

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
        link = row.link
        self._view.post(link.worker, Detach(link.link, link.generation, DETACHED))
        LOGGER.info("link %r detached by request of [C%s]", link.name, request.requester.connection)
        return Response(200, self.values(row) | {"adminStatus": "disabled", "operStatus": "down"})
