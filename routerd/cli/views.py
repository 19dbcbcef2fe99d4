"""The views of `routerd stat`: the entity type that each shows, and its columns, which fit 80 columns."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from routerd.cli.blame import is_stuck
from routerd.cli.figures import duration, short_bytes, short_number
from routerd.cli.processes import Row, arena, cpus, part, pinned, remark, ring, stall
from routerd.config.formats.closest import closest
from shm.contract.text import printable


class Cell(msgspec.Struct, frozen=True):
    """One column: its header, its value (by which rows sort) and how that is written (None: by ``str``).

    ``least`` is the width in characters to which the column may shrink; without it the column never shrinks.
    An ``optional`` column is left out if all its values are 0 or missing, one of ``progress`` where links are stuck.
    """

    header: str
    value: Callable[[Row], Any]
    write: Callable[[Any], str] | None = None
    number: bool = False
    least: int | None = None
    optional: bool = False
    progress: bool = False

    def text(self, row: Row) -> str:
        """Return the cell's text for a row."""
        value = self.value(row)
        if value is None or value == "":
            return "-"
        return printable(self.write(value) if self.write else str(value))


class View(msgspec.Struct, frozen=True):
    """One view of an entity type.

    A ``sampled`` view queries twice, for rates, a view of ``traffic`` also all links; a ``single`` view shows one
    entity as pairs; ``more`` are attributes that a QUERY does not return unless it names them; ``note`` writes the
    lines below the table, and the view ``below`` follows. ``address``, ``connection`` and ``stuck`` return what the
    options of these names choose rows by; without one, the view has no such rows.
    """

    entity: str
    cells: tuple[Cell, ...] = ()
    empty: str = ""
    sampled: bool = False
    traffic: bool = False
    single: bool = False
    note: Callable[[list[Row]], str] | None = None
    address: Callable[[Row], str | None] | None = None
    connection: Callable[[Row], str] | None = None
    stuck: Callable[[Row], bool] | None = None
    below: str = ""
    more: tuple[str, ...] = ()

    def cell(self, header: str) -> Cell:
        """Return the column with a header, to sort by. Raises click.UsageError."""
        for cell in (ROUTER, *self.cells):
            if cell.header == header.lower():
                return cell
        known = ", ".join(cell.header for cell in self.cells)
        guess = closest(header, [cell.header for cell in self.cells])
        meant = f"did you mean {guess}? They are: {known}" if guess else f"give one of: {known}"
        instead = meant if known else "these are no rows; sort connections (-c) or links (-l)"
        raise click.UsageError(f"there is no column {header!r} here to sort by; {instead}")


def _of(name: str) -> Callable[[Row], Any]:
    return lambda row: row.get(name)


def _names(name: str) -> Callable[[Row], Any]:
    return lambda row: " ".join(row.get(name) or ())


def _number(header: str, name: str, optional: bool = False, progress: bool = False) -> Cell:
    return Cell(header, _of(name), short_number, number=True, optional=optional, progress=progress)


def _last_change(rows: list[Row]) -> str:
    """Return the line that says when a router or a link between routers last came or went."""
    last = max((row.get("lastTopoChange") or 0 for row in rows), default=0)
    if not last:
        return ""
    return f"the network changed last at {datetime.fromtimestamp(last, UTC):%Y-%m-%d %H:%M:%S} UTC"


UP = "SUCCESS"  # the status of a connector whose connection is open
_ATTEMPT = re.compile(r"^\[C[0-9]+\] ")


def _connected(row: Row) -> str:
    status = str(row.get("connectionStatus"))
    return "up" if status == UP else status.lower()


def _last_errors(rows: list[Row]) -> str:
    """Return a line for each connector that is not up, with the error of its last attempt."""
    failed = [row for row in rows if row.get("connectionStatus") != UP and row.get("connectionMsg")]
    return "\n".join(printable(f"{row.get('name')}: {_ATTEMPT.sub('', str(row['connectionMsg']))}") for row in failed)


def _why_inactive(rows: list[Row]) -> str:
    """Return a line for each link route or auto link that is not active, with its error."""
    failed = [row for row in rows if row.get("lastError")]
    return "\n".join(printable(f"{_label(row)}: {row['lastError']}") for row in failed)


def _label(row: Row) -> str:
    named = row.get("name") or row.get("address") or row.get("pattern") or f"{row.get('prefix')}.#"
    return f"{named} {row.get('direction')}"


_CLASSES = {"M": "mobile", "L": "local", "T": "topo", "R": "router", "A": "area", "H": "edge"}


def _class(key: str | None) -> str | None:
    return _CLASSES.get(key[0], key[0]) if key else None


def _address(key: str | None) -> str | None:
    """Return what a table shows for an address key: its text, and the class of all but mobile ones."""
    if not key or key[0] == "M":
        return text_of(key)
    return f"{text_of(key)} ({_class(key)})"


def text_of(key: str | None) -> str | None:
    """Return the text of an address from its key."""
    return key[2 if key[0] == "M" else 1 :] if key else None


def _security(row: Row) -> str | None:
    return str(row.get("sslProto") or "TLS") if row.get("isEncrypted") else None


def _user(row: Row) -> str:
    if not row.get("isAuthenticated"):
        return "no auth"
    return str(row.get("user") or f"({row.get('sasl')})")  # who logs in by EXTERNAL learns no name


ROUTER = Cell("router", _of("router"), least=6, optional=True)  # before the columns of a view, with --router all

VIEWS: dict[str, View] = {
    "router": View("router", single=True, more=("coreUptimeSeconds", "coreRestarts")),
    "connections": View(
        "connection",
        (
            Cell("id", lambda r: int(r["identity"]), number=True),
            Cell("host", _of("host"), least=15),
            Cell("container", _of("container"), least=9),
            Cell("role", _of("role"), least=6),
            Cell("dir", _of("dir")),
            Cell("tls", _security, optional=True),
            Cell("user", _user, least=7),
            Cell("idle", _of("lastDlvSeconds"), duration, number=True),
            Cell("up", _of("uptimeSeconds"), duration, number=True),
        ),
        "no connections",
        connection=lambda row: str(row["identity"]),
        below="connectors",
    ),
    "connectors": View(
        "connector",
        (
            Cell("connector", _of("name"), least=9),
            Cell("to", lambda r: f"{r.get('host')}:{r.get('port')}", least=12),
            Cell("role", _of("role"), least=6),
            Cell("state", _connected),
        ),
        "no connectors",
        note=_last_errors,
    ),
    "traffic": View(
        "connection",
        (
            Cell("id", lambda r: int(r["identity"]), number=True),
            Cell("host", _of("host"), least=15),
            Cell("container", _of("container"), least=9),
            _number("in/s", "inRate"),
            _number("out/s", "outRate"),
            _number("in", "in"),
            _number("out", "out"),
            _number("unset", "unsettled"),
            _number("stuck", "stuck", optional=True),
        ),
        "no connections",
        traffic=True,
        connection=lambda row: str(row["identity"]),
        stuck=lambda row: bool(row["stuck"]),
    ),
    "links": View(
        "router.link",
        (
            Cell("id", lambda r: int(r["identity"]), number=True),
            Cell("dir", _of("linkDir")),
            Cell("conn", _of("connectionId"), number=True),
            Cell("address", lambda r: _address(r.get("owningAddr")), least=8),
            _number("cred", "creditAvailable"),
            _number("undel", "undeliveredCount", optional=True),
            _number("unset", "unsettledCount"),
            _number("deliv", "deliveryCount"),
            _number("acc", "acceptedCount", progress=True),
            _number("rej", "rejectedCount", optional=True, progress=True),
            _number("rel", "releasedCount", optional=True, progress=True),
            _number("mod", "modifiedCount", optional=True, progress=True),
            _number("pre", "presettledCount", optional=True, progress=True),
            _number("drop", "droppedPresettledCount", optional=True, progress=True),
            _number("stuck", "deliveriesStuck", optional=True),
            _number("rate", "settleRate", progress=True),
            Cell("why", _of("why"), optional=True),
        ),
        "no links",
        address=lambda row: text_of(row.get("owningAddr")),
        connection=lambda row: str(row.get("connectionId")),
        stuck=is_stuck,
    ),
    "addresses": View(
        "router.address",
        (
            Cell("class", lambda r: _class(r["key"])),
            Cell("address", lambda r: text_of(r["key"]), least=8),
            Cell("distrib", _of("distribution")),
            Cell("pri", lambda r: r["priority"] if r.get("priority", -1) >= 0 else None, number=True, optional=True),
            _number("own", "inProcess"),
            _number("local", "subscriberCount"),
            _number("remote", "remoteCount", optional=True),
            _number("in", "deliveriesIngress"),
            _number("out", "deliveriesEgress"),
            _number("thru", "deliveriesTransit", optional=True),
        ),
        "no addresses",
        address=lambda row: text_of(row["key"]),
    ),
    "link_routes": View(
        "router.config.linkRoute",
        (
            Cell("name", _of("name"), least=6),
            Cell("pattern", lambda r: r.get("pattern") or f"{r.get('prefix')}.#", least=8),
            Cell("dir", _of("direction")),
            Cell("connection", lambda r: r.get("connection") or r.get("containerId"), least=10),
            Cell("state", _of("operStatus")),
        ),
        "no link routes",
        more=("lastError",),
        note=_why_inactive,
        address=lambda row: row.get("pattern") or row.get("prefix"),
    ),
    "auto_links": View(
        "router.config.autoLink",
        (
            Cell("name", _of("name"), least=6),
            Cell("address", _of("address"), least=8),
            Cell("dir", _of("direction")),
            Cell("connection", lambda r: r.get("connection") or r.get("containerId"), least=10),
            Cell("state", _of("operStatus")),
        ),
        "no auto links",
        note=_why_inactive,
        address=_of("address"),
    ),
    "nodes": View(
        "router.node",
        (
            Cell("id", _of("id"), least=12),
            Cell("next hop", _of("nextHop"), least=8),
            Cell("cost", _of("cost"), number=True),
            Cell("conn", _of("routerLink"), number=True),
            Cell("neighbours", _names("linkState"), least=10),
            Cell("valid origins", _names("validOrigins"), least=13),
        ),
        "it knows no other router: its mode is standalone, or edge (see stat -c)",
        note=_last_change,
    ),
    "workers": View(
        "worker",
        (
            Cell("process", _of("name")),
            Cell("pid", _of("pid"), number=True),
            Cell("cpu", _of("cpuPercent"), part, number=True),
            Cell("on", _of("cpus"), cpus),
            Cell("node", _of("numaNode"), number=True, optional=True),
            Cell("mem", _of("memory"), short_bytes, number=True),
            _number("conn", "connections"),
            _number("links", "links"),
            _number("unset", "unsettled", optional=True),
            Cell("rings", ring, part, number=True),
            Cell("arena", arena, part, number=True),
            Cell("rest", _of("restarts"), number=True, optional=True),
            Cell("stall", _of("longestLoopNanoseconds"), stall, number=True),
            Cell("remark", remark, optional=True),
        ),
        "no processes",
        sampled=True,
        note=pinned,
    ),
    "memory": View(
        "allocator",
        (
            Cell("pool", _of("typeName")),
            Cell("block", _of("typeSize"), short_bytes, number=True),
            Cell("blocks", _of("totalAllocFromHeap"), number=True),
            Cell("used", _of("heldByThreads"), number=True),
            Cell(
                "part", lambda r: round(100 * r["heldByThreads"] / max(1, r["totalAllocFromHeap"])), part, number=True
            ),
        ),
        "no pools",
    ),
}


def _core_restarted(row: Row) -> list[tuple[str, str]]:
    """Return when the core's last successor started and how many it has had; nothing if it has had none."""
    if not (restarts := row.get("coreRestarts")):
        return []
    ago = duration(row.get("coreUptimeSeconds", 0))
    return [("Core restarted", f"{ago} ago" + (f", {restarts} times in all" if restarts > 1 else ""))]


def router_rows(row: Row) -> list[tuple[str, str]]:
    """Return the router's figures as pairs of label and text."""
    counts = (
        ("Connections", "connectionCount"),
        ("Links", "linkCount"),
        ("Addresses", "addrCount"),
        ("Deliveries in", "deliveriesIngress"),
        ("Deliveries out", "deliveriesEgress"),
        ("Accepted", "acceptedDeliveries"),
        ("Rejected", "rejectedDeliveries"),
        ("Released", "releasedDeliveries"),
        ("Modified", "modifiedDeliveries"),
        ("Presettled", "presettledDeliveries"),
        ("Presettled, dropped", "droppedPresettledDeliveries"),
        ("Delayed over 1 s", "deliveriesDelayed1Sec"),
        ("Delayed over 10 s", "deliveriesDelayed10Sec"),
        ("Stuck over 10 s", "deliveriesStuck"),
        ("Links without credit", "linksBlocked"),
        ("On to other routers", "deliveriesTransit"),
        ("To a fallback", "deliveriesRedirectedToFallback"),
    )
    return [
        ("Router", f"{row.get('id')} ({row.get('mode')})"),
        ("Version", str(row.get("version"))),
        ("Workers", str(row.get("workerThreads"))),
        ("Up", duration(row.get("uptimeSeconds", 0))),
        *_core_restarted(row),
        ("Memory", short_bytes(row.get("memoryUsage", 0))),
        *((label, f"{row.get(name, 0):,}") for label, name in counts),
    ]
