"""`routerd stat`: shows a router's state as tables that fit a terminal, or as JSON."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import click
import msgspec
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from routerd.cli import printed_table
from routerd.cli.blame import explain
from routerd.cli.client import Client, ClientError, Place, RefusedError
from routerd.cli.printed import print_json
from routerd.cli.views import ROUTER, VIEWS, Cell, View, router_rows, text_of
from shm.contract.roles import Role

SAMPLE_SECONDS = 0.5  # between two samples of the processes' CPU time
BUSY_TURNS = 10  # turns between two samples that show a process is awake, not stuck
LINK, ADDRESS = "router.link", "router.address"
LINK_COUNTS = ["identity", "connectionId", "linkDir", "deliveryCount", "unsettledCount", "deliveriesStuck"]
ALL = "all"  # what --router calls all routers of the network
RETRY_SECONDS = 0.5  # between attempts to reconnect

Rows = list[dict[str, Any]]


class Options(msgspec.Struct, frozen=True):
    """Says which view to show, and how."""

    view: str = "router"
    json: bool = False
    watch: float | None = None
    sort: str | None = None
    reverse: bool = False
    limit: int | None = None
    address: str | None = None  # a pattern as of a shell
    connection: int | None = None
    stuck: bool = False

    @property
    def chooses(self) -> bool:
        """Whether some rows are left out, so that the router is asked for all."""
        return self.address is not None or self.connection is not None or self.stuck


class Frame(NamedTuple):
    """The rows of one refresh, and those of the view below; ``trouble`` says why they are those of an earlier one."""

    rows: Rows
    below: Rows
    trouble: str


def run(place: Place, options: Options) -> None:
    """Show a view, with `watch` until interrupted. Raises click.UsageError or ClientError."""
    console = Console(highlight=False)
    view = VIEWS[options.view]
    if options.sort is not None:
        view.cell(options.sort)
    check(view, options)
    with suppress(KeyboardInterrupt):
        if options.watch is None:
            with closing(Network(place)) as network:
                rows = _look(network, view, options)
                show(console, options, rows, _look_below(network, view, options))
                if not rows:
                    missing = missing_address(network, view, options), missing_connection(network, options)
                    for told in filter(None, missing):
                        click.echo(told, err=True)
        else:
            _watch(frames(place, view, options), view, options, console)


def frames(place: Place, view: View, options: Options) -> Iterator[Frame]:
    """Yield the rows at each refresh.

    A lost connection is opened again, as its worker may have been replaced; while that fails, the last rows
    come with the trouble. Raises ClientError only if the first connection fails or the router refuses the
    query.
    """
    network: Network | None = Network(place)
    rows: Rows = []
    below: Rows = []
    while True:
        trouble = ""
        try:
            network = network or Network(place)
            rows, below = _look(network, view, options), _look_below(network, view, options)
        except RefusedError:
            raise
        except ClientError as error:
            trouble = str(error)
            if network is not None:
                network.close()
            network = None
        yield Frame(rows, below, trouble)
        time.sleep(RETRY_SECONDS if trouble else options.watch or 0.0)


def _watch(looks: Iterator[Frame], view: View, options: Options, console: Console) -> None:
    if options.json or not console.is_terminal:
        for frame in looks:
            if frame.trouble:
                click.echo(frame.trouble, err=True)
            else:
                show(console, options, frame.rows, frame.below)
    with Live(console=console, auto_refresh=False, screen=True) as live:
        for frame in looks:
            table = _shown(view, frame.rows, console.width, frame.below)
            trouble = [Text(f"{frame.trouble}\nConnecting again", style="bold")] if frame.trouble else []
            live.update(Group(*trouble, table), refresh=True)


def check(view: View, options: Options) -> None:
    """Raise click.UsageError for a choice of rows that this view cannot make."""
    for option, name, given in (
        ("--address", "address", options.address is not None),
        ("--connection", "connection", options.connection is not None),
        ("--stuck", "stuck", options.stuck),
    ):
        if given and getattr(view, name) is None:
            views = ", ".join(f"--{one.replace('_', '-')}" for one, its in VIEWS.items() if getattr(its, name))
            raise click.UsageError(f"{option} does not choose among these rows; it goes with one of: {views}")


class Network:
    """The routers to ask: the one that a place names, or all of its network. Every method raises ClientError."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._all = place.router == ALL
        self._first = Client(msgspec.structs.replace(place, router=None) if self._all else place)
        self._clients: dict[str, Client] = {}

    def clients(self) -> Iterator[tuple[str, Client]]:
        """Yield each router's id, "" if only one is asked, and a client of its agent."""
        if not self._all:
            yield "", self._first
            return
        (own,) = (str(row["id"]) for row in self._first.query("router", ["id"]))
        yield own, self._first
        there = sorted(str(row["id"]) for row in self._first.query("node", ["id"]) if row["id"] != own)
        for router in there:
            if router not in self._clients:
                self._clients[router] = Client(msgspec.structs.replace(self._place, router=router))
            yield router, self._clients[router]

    def close(self) -> None:
        """Close all connections."""
        for client in (self._first, *self._clients.values()):
            client.close()


def _look(network: Network, view: View, options: Options) -> Rows:
    """Return the rows to show, sorted and limited."""
    ordered = options.sort is not None or options.reverse or options.chooses
    limit = None if ordered else options.limit
    rows = []
    for router, client in network.clients():
        found = list(_rows(client, view, limit))
        if options.stuck and view.entity == LINK:
            explain(client, found)
        found = [row for row in found if chosen(view, row, options)]
        rows += [{"router": router, **row} if router else row for row in found]
    if options.sort is not None:
        cell = view.cell(options.sort)
        rows.sort(key=lambda row: _sort_key(cell.value(row)), reverse=options.reverse)
    elif options.reverse:
        rows.reverse()
    return rows[: options.limit]


def missing_address(network: Network, view: View, options: Options) -> str:
    """Return that no address is like that of ``--address``; "" if there is one, or the rows tell of other addresses."""
    if options.address is None or view.entity not in (LINK, ADDRESS):
        return ""
    for _, client in network.clients():
        if any(fnmatchcase(text_of(row["key"]) or "", options.address) for row in client.query(ADDRESS, ["key"])):
            return ""
    return f"no address in use is like {options.address!r}; `routerd stat --addresses` shows them all"


def missing_connection(network: Network, options: Options) -> str:
    """Return that there is no connection of the number of ``--connection``; "" if there is one, or none is given."""
    if options.connection is None:
        return ""
    wanted = str(options.connection)
    for _, client in network.clients():
        if any(str(row["identity"]) == wanted for row in client.query("connection", ["identity"])):
            return ""
    return f"there is no connection {wanted}; `routerd stat --connections` shows them all"


def _look_below(network: Network, view: View, options: Options) -> Rows:
    """Return the rows of the view below: none in JSON, for chosen rows, or from a router that has no such entities."""
    if not view.below or options.json or options.chooses:
        return []
    with suppress(RefusedError):
        return _look(network, VIEWS[view.below], Options(view.below))
    return []


def chosen(view: View, row: dict[str, Any], options: Options) -> bool:
    """Whether the options let a row be shown."""
    if options.address is not None and view.address and not fnmatchcase(view.address(row) or "", options.address):
        return False
    if options.connection is not None and view.connection and view.connection(row) != str(options.connection):
        return False
    return not options.stuck or view.stuck is None or view.stuck(row)


def _rows(client: Client, view: View, limit: int | None) -> Rows:
    """Return one router's rows; of a sampled view with what happened between two looks."""
    began = time.monotonic()
    rows = list(client.query(view.entity, limit=limit))
    if view.more:
        with suppress(RefusedError):  # a router of another kind has no such attributes
            known = {row["identity"]: row for row in rows}
            for more in client.query(view.entity, ["identity", *view.more], limit):
                known.get(more["identity"], {}).update(more)  # one may have come meanwhile
    if view.traffic:
        before = list(client.query(LINK, LINK_COUNTS))
        time.sleep(SAMPLE_SECONDS)
        return with_traffic(rows, before, list(client.query(LINK, LINK_COUNTS)), time.monotonic() - began)
    if view.sampled:
        time.sleep(SAMPLE_SECONDS)
        return with_rates(rows, list(client.query(view.entity, limit=limit)), time.monotonic() - began)
    return rows


def with_traffic(rows: Rows, before: Rows, after: Rows, seconds: float) -> Rows:
    """Return connections with what their links did, out of two samples of all links.

    ``in`` and ``out`` are the deliveries since the links were attached, ``inRate`` and ``outRate`` those of a second,
    ``unsettled`` and ``stuck`` those that are not settled, and for more than 10 s.
    """
    earlier = {row["identity"]: row.get("deliveryCount", 0) for row in before}
    sums: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for link in after:
        found, count = sums[str(link["connectionId"])], link.get("deliveryCount", 0)
        found[link["linkDir"]] += count
        found[f"{link['linkDir']}Rate"] += count - earlier.get(link["identity"], 0)
        found["unsettled"] += link.get("unsettledCount", 0)
        found["stuck"] += link.get("deliveriesStuck", 0)
    for row in rows:
        found = sums[str(row["identity"])]
        row.update(found)
        row.update({name: round(found[name] / seconds) for name in ("inRate", "outRate")})
    return rows


def with_rates(before: Rows, after: Rows, seconds: float) -> Rows:
    """Return the later of two samples of the processes, with what each process did in between.

    ``cpuPercent`` is the percentage of one CPU that it used; ``awake`` says that it had work all the time and
    never slept; ``stalling`` says that its longest turn so far fell between the samples; ``queued`` is, for
    the core, how full its fullest ring is, in percent.
    """
    earlier = {(row["name"], row.get("pid")): row for row in before}
    queued = max((_waiting_for_core(row) for row in after), default=0)
    rows = []
    for row in after:
        first = earlier.get((row["name"], row.get("pid")), row)

        def grown(name: str, row: dict[str, Any] = row, first: dict[str, Any] = first) -> float:
            return float(row.get(name, 0) - first.get(name, 0))

        rows.append({
            **row,
            "cpuPercent": round(100 * grown("cpuSeconds") / seconds),
            "awake": grown("loops") >= BUSY_TURNS and not grown("sleeps"),
            "stalling": grown("longestLoopNanoseconds") > 0,
            "queued": queued if row["name"] == Role.CORE else 0,
        })  # fmt: skip
    return rows


def _waiting_for_core(row: dict[str, Any]) -> int:
    return round(100 * row.get("actionsWaiting", 0) / row["ringSize"]) if row.get("ringSize") else 0


def _sort_key(value: Any) -> tuple[bool, str | float]:
    """Sort numbers before words."""
    if isinstance(value, int | float):
        return False, float(value)
    return True, str(value)


def show(console: Console, options: Options, rows: Rows, below: Rows | None = None) -> None:
    """Print rows as a table, with those of the view below, or as JSON."""
    if options.json:
        print_json(rows)
    else:
        console.print(_shown(VIEWS[options.view], rows, console.width, below))


def _shown(view: View, rows: Rows, width: int, below: Rows | None = None) -> Group:
    parts: list[RenderableType] = [_table(view, rows, width)]
    if note := view.note(rows) if view.note else "":
        parts.append(Text(note))
    if below:
        parts += ["", _shown(VIEWS[view.below], below, width)]
    return Group(*parts)


def _table(view: View, rows: list[dict[str, Any]], width: int) -> Table | Text:
    if view.single:
        return _pairs([pair for row in rows for pair in router_rows(row)])
    if not rows:
        return Text(view.empty)
    stuck = any("why" in row for row in rows)
    candidates = [cell for cell in (ROUTER, *view.cells) if not (stuck and cell.progress)]
    cells = [cell for cell in candidates if not cell.optional or any(cell.value(row) for row in rows)]
    texts = [[cell.text(row) for cell in cells] for row in rows]
    rooms = widths(cells, texts, width)
    wide = sum(rooms) + 2 * len(cells) <= width  # there is room for two blanks between columns
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, int(wide), 0, 0))
    for cell, room in zip(cells, rooms, strict=True):
        table.add_column(
            cell.header, justify="right" if cell.number else "left", no_wrap=True, overflow="ellipsis", width=room
        )
    for row in texts:
        table.add_row(*map(Text, row))
    return table


def widths(cells: Sequence[Cell], texts: list[list[str]], width: int) -> list[int]:
    """Return the width of each column in characters: columns with `least` shrink until the table fits."""
    wanted = [max(len(cell.header), *(len(row[at]) for row in texts)) for at, cell in enumerate(cells)]
    too_much = sum(wanted) + len(cells) - 1 - width  # one blank between columns
    while too_much > 0:
        room = [have - cell.least if cell.least else 0 for have, cell in zip(wanted, cells, strict=True)]
        if max(room) <= 0:
            break
        wanted[room.index(max(room))] -= 1
        too_much -= 1
    return wanted


def _pairs(pairs: list[tuple[str, str]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(name), printed_table.cell(value))
    return table
