"""`routerd stat`: shows a router's state as tables that fit a terminal, or as JSON."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import click
import msgspec
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from routerd.cli.client import Client, ClientError, Place, RefusedError
from routerd.cli.printed import print_json
from routerd.cli.views import VIEWS, Cell, View, router_rows
from shm.contract.roles import Role

SAMPLE_SECONDS = 0.5  # between two samples of the processes' CPU time
BUSY_TURNS = 10  # turns between two samples that show a process is awake, not stuck
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


class Frame(NamedTuple):
    """The rows of one refresh; ``trouble`` says why they are those of an earlier one."""

    rows: Rows
    trouble: str


def run(place: Place, options: Options) -> None:
    """Show a view, with `watch` until interrupted. Raises ClientError."""
    console = Console(highlight=False)
    view = VIEWS[options.view]
    if options.sort is not None:
        view.cell(options.sort)
    with suppress(KeyboardInterrupt):
        if options.watch is None:
            with Client(place) as client:
                show(console, options, _look(client, view, options))
        else:
            _watch(frames(place, view, options), view, options, console)


def frames(place: Place, view: View, options: Options) -> Iterator[Frame]:
    """Yield the rows at each refresh.

    A lost connection is opened again, as its worker may have been replaced; while that fails, the last rows
    come with the trouble. Raises ClientError only if the first connection fails or the router refuses the
    query.
    """
    client: Client | None = Client(place)
    rows: Rows = []
    while True:
        trouble = ""
        try:
            client = client or Client(place)
            rows = _look(client, view, options)
        except RefusedError:
            raise
        except ClientError as error:
            trouble = str(error)
            if client is not None:
                client.close()
            client = None
        yield Frame(rows, trouble)
        time.sleep(RETRY_SECONDS if trouble else options.watch or 0.0)


def _watch(looks: Iterator[Frame], view: View, options: Options, console: Console) -> None:
    if options.json or not console.is_terminal:
        for frame in looks:
            if frame.trouble:
                click.echo(frame.trouble, err=True)
            else:
                show(console, options, frame.rows)
    with Live(console=console, auto_refresh=False, screen=True) as live:
        for frame in looks:
            table = _shown(view, frame.rows, console.width)
            trouble = [Text(f"{frame.trouble}\nConnecting again", style="bold")] if frame.trouble else []
            live.update(Group(*trouble, table), refresh=True)


def _look(client: Client, view: View, options: Options) -> Rows:
    """Return the rows to show, sorted and limited."""
    ordered = options.sort is not None or options.reverse
    limit = None if ordered else options.limit
    began = time.monotonic()
    rows = list(client.query(view.entity, limit=limit))
    if view.sampled:
        time.sleep(SAMPLE_SECONDS)
        later = list(client.query(view.entity, limit=limit))
        rows = with_rates(rows, later, time.monotonic() - began)
    if options.sort is not None:
        cell = view.cell(options.sort)
        rows.sort(key=lambda row: _sort_key(cell.value(row)), reverse=options.reverse)
    elif options.reverse:
        rows.reverse()
    return rows[: options.limit]


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


def show(console: Console, options: Options, rows: list[dict[str, Any]]) -> None:
    """Print rows as a table or as JSON."""
    if options.json:
        print_json(rows)
    else:
        console.print(_shown(VIEWS[options.view], rows, console.width))


def _shown(view: View, rows: Rows, width: int) -> Group:
    note = view.note(rows) if view.note else ""
    return Group(_table(view, rows, width), *([Text(note)] if note else []))


def _table(view: View, rows: list[dict[str, Any]], width: int) -> Table | Text:
    if view.single:
        return _pairs(view, router_rows(rows[0]) if rows else [])
    if not rows:
        return Text(view.empty)
    cells = [cell for cell in view.cells if not cell.optional or any(cell.value(row) for row in rows)]
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


def _pairs(view: View, pairs: list[tuple[str, str]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(name), Text(value))
    return table
