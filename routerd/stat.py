"""`routerd stat`: what a router tells of itself, as tables that fit a terminal, or as JSON."""

import sys
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from routerd.client import Client, ClientError, Place
from routerd.views import VIEWS, Cell, View, router_rows

SAMPLE_SECONDS = 0.5  # between two looks at the processes, for their CPU use


class Options(msgspec.Struct, frozen=True):
    """What to show, and how."""

    view: str = "router"
    json: bool = False
    watch: float | None = None
    sort: str | None = None
    reverse: bool = False
    limit: int | None = None


def run(place: Place, options: Options, console: Console | None = None) -> int:
    """Show a view; the exit status."""
    console = console or Console(highlight=False)
    view = VIEWS[options.view]
    try:
        with Client(place) as client:
            if options.watch is None:
                show(console, options, _look(client, view, options))
            else:
                _watch(client, view, options, console)
    except ClientError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


def _watch(client: Client, view: View, options: Options, console: Console) -> None:
    assert options.watch is not None
    if options.json or not console.is_terminal:
        while True:
            show(console, options, _look(client, view, options))
            time.sleep(options.watch)
    with Live(console=console, auto_refresh=False, screen=True) as live:
        while True:
            live.update(_table(view, _look(client, view, options), console.width), refresh=True)
            time.sleep(options.watch)


def _look(client: Client, view: View, options: Options) -> list[dict[str, Any]]:
    """The rows to show, sorted."""
    rows = list(client.query(view.entity, limit=options.limit))
    if view.sampled:
        time.sleep(SAMPLE_SECONDS)
        rows = with_cpu_use(rows, list(client.query(view.entity, limit=options.limit)), SAMPLE_SECONDS)
    if options.sort is not None:
        cell = view.cell(options.sort)
        rows.sort(key=lambda row: _sort_key(cell.value(row)), reverse=options.reverse)
    elif options.reverse:
        rows.reverse()
    return rows


def with_cpu_use(
    before: list[dict[str, Any]], after: list[dict[str, Any]], seconds: float
) -> list[dict[str, Any]]:
    """The later of two looks, each process with the part of a CPU it used in between, in percent."""
    used = {row["name"]: (row.get("pid"), row.get("cpuSeconds", 0.0)) for row in before}
    rows = []
    for row in after:
        pid, then = used.get(row["name"], (None, 0.0))
        spent = row.get("cpuSeconds", 0.0) - then if pid == row.get("pid") else 0.0
        rows.append({**row, "cpuPercent": round(100 * spent / seconds)})
    return rows


def _sort_key(value: Any) -> tuple[bool, str | float]:
    """Numbers before words, each among themselves."""
    if isinstance(value, int | float):
        return False, float(value)
    return True, str(value)


def show(console: Console, options: Options, rows: list[dict[str, Any]]) -> None:
    """Write rows as a table or as JSON."""
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(rows, enc_hook=str), indent=2).decode(), flush=True)
    else:
        console.print(_table(VIEWS[options.view], rows, console.width))


def _table(view: View, rows: list[dict[str, Any]], width: int) -> Table | Text:
    if view.single:
        return _pairs(view, router_rows(rows[0]) if rows else [])
    if not rows:
        return Text(view.empty)
    cells = [cell for cell in view.cells if not cell.optional or any(cell.value(row) for row in rows)]
    texts = [[cell.text(row) for cell in cells] for row in rows]
    rooms = widths(cells, texts, width)
    wide = sum(rooms) + 2 * len(cells) <= width  # room for two blanks between columns
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, int(wide), 0, 0))
    for cell, room in zip(cells, rooms, strict=True):
        table.add_column(
            cell.header,
            justify="right" if cell.number else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=room,
        )
    for row in texts:
        table.add_row(*map(Text, row))
    return table


def widths(cells: Sequence[Cell], texts: list[list[str]], width: int) -> list[int]:
    """Characters for each column: what it needs, but those that may be cut off make the table fit."""
    wanted = [max(len(cell.header), *(len(row[at]) for row in texts)) for at, cell in enumerate(cells)]
    too_much = sum(wanted) + len(cells) - 1 - width  # a blank between them
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
