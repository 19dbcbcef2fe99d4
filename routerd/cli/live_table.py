"""`routerd table push`, `who` and `ask`: route tables of a running router, through its management agent."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table as Shown

from core.rmr.tables.border import LOSSLESS, octets_of, stray
from core.rmr.tables.table import ANY_SUBSCRIPTION
from routerd.cli.cli_options import asks, examples, place_of
from routerd.cli.client import Client, ClientError, long_type

PIECE = 1 << 17  # characters of a table per request: far below the agent's limit
TYPE = long_type("routeTable")
NAME = click.option("--table", "name", metavar="NAME", help="The route table, if there are several.")


def _table(client: Client, name: str | None) -> str:
    """Return the name of the table that the user means. Raises ClientError."""
    names = _names(client, name)
    if name is not None or len(names) == 1:
        return name or names[0]
    raise ClientError(f"the router has several route tables; give --table, one of {', '.join(names)}")


def _names(client: Client, name: str | None) -> list[str]:
    """Return the names of all route tables. Raises ClientError if there is none, or none called `name`."""
    names = [str(row["name"]) for row in client.query("routeTable", ["name"])]
    if not names:
        raise ClientError("the router has no route table; add a routeTable entity to its configuration")
    if name is not None and name not in names:
        raise ClientError(f"there is no route table {name!r}; give --table, one of {', '.join(names)}")
    return names


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a table's text, each with whether it is the last."""
    for at in range(0, max(1, len(text)), PIECE):
        yield text[at : at + PIECE], at + PIECE >= len(text)


def _sent(text: str) -> str | bytes:
    """Return the text as AMQP can carry it: as binary if it is not UTF-8."""
    return octets_of(text) if stray(text) else text


@click.command(
    short_help="Give a running router a file.",
    epilog=examples("routerd table push table.rt", "generate-table | routerd table push -"),
)
@click.argument("file", type=click.Path(path_type=Path, readable=False, allow_dash=True))
@NAME
@asks
def push(file: Path, name: str | None, **place: Any) -> None:
    """Give a running router the tables and maps in FILE; what is bad leaves the one in use as it is."""
    try:
        with click.open_file(str(file), encoding="utf-8", errors=LOSSLESS) as stream:
            text = stream.read()
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}") from error
    try:
        with Client(place_of(place | {"timeout": max(place["timeout"], 60.0)})) as client:
            found = _table(client, name)
            answer: Any = {}
            for number, (piece, last) in enumerate(_pieces(text)):
                body = {"text": _sent(piece), "first": number == 0, "last": last}
                answer = client.call("PUSH", body, type=TYPE, name=found)
    except ClientError as error:
        raise click.ClickException(f"{file}: {error}") from error
    for one in answer["outcomes"]:
        table_id = one["table_id"] or "<id-missing>"
        click.echo(f"{found}: {one['kind']} {table_id} in use ({one['entries']} entries)")


@click.command(short_help="Show a running router's tables and endpoints.", epilog=examples("routerd table who"))
@NAME
@asks
def who(name: str | None, **place: Any) -> None:
    """Show the tables that a running router uses, and who is at each of their endpoints."""
    console = Console(soft_wrap=True)
    try:
        with Client(place_of(place)) as client:
            _names(client, name)
            for row in client.query("routeTable"):
                if name is None or row["name"] == name:
                    console.print(_heading(row), highlight=False)
            rows, managers, applications = (
                [row for row in client.query(kind) if name is None or row["table"] == name]
                for kind in ("routeTable.endpoint", "routeTable.manager", "routeTable.application")
            )
    except ClientError as error:
        raise click.ClickException(str(error)) from error
    for row in managers:
        console.print(_manager(row), highlight=False)
    shown = Shown(box=box.SIMPLE)
    for column in ("table", "endpoint", "state", "sent", "missed"):
        shown.add_column(column, justify="right" if column in ("sent", "missed") else "left", overflow="fold")
    for row in rows:
        shown.add_row(row["table"], row["endpoint"], _state(row), str(row["deliveryCount"]), str(row["missedCount"]))
    console.print(shown)
    if applications:
        console.print(_applications(applications))


def _manager(row: dict[str, Any]) -> str:
    found = f"{row['table']}: Route Manager {row['manager']}: {row['state']}"
    return f"{found}: {row.get('tableId') or '<id-missing>'}: {row['reason']}" if row.get("reason") else found


def _applications(rows: list[dict[str, Any]]) -> Shown:
    """Return the table of the applications whose Route Manager this router is."""
    shown = Shown(box=box.SIMPLE)
    for column in ("table", "application", "control port", "runs", "map", "state", "since", "reason"):
        shown.add_column(column, overflow="fold")
    for row in rows:
        names = ("table", "endpoint", "controlIdentity", "tableId", "mapId", "state")
        shown.add_row(*(row.get(one) or "-" for one in names), _time(row["since"]), row.get("reason") or "")
    return shown


def _heading(row: dict[str, Any]) -> str:
    if not row.get("installed"):
        return f"{row['name']}: no table yet{': ' + row['lastError'] if row.get('lastError') else ''}"
    found = f"{row['name']}: table {row.get('tableId', '<id-missing>')}, {row['entryCount']} entries"
    return f"{found}, from {row['origin']}, in use since {_time(row['installed'])}"


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _state(row: dict[str, Any]) -> str:
    if row["live"]:
        return "live"
    return "nobody" if row.get("worker") is None else f"worker {row['worker']} connects"


@click.command(
    short_help="Say where a running router sends a message.", epilog=examples("routerd table ask --mt 1000 --sid 10")
)
@click.option("--mt", type=int, required=True, help="Message type.")
@click.option("--sid", type=int, default=ANY_SUBSCRIPTION, show_default=True, help="Subscription id.")
@click.option("--meid", default="", help="Managed entity.")
@click.option("--from", "sender", default="", metavar="HOST:PORT", help="The endpoint that sends it.")
@NAME
@asks
def ask(mt: int, sid: int, meid: str, sender: str, name: str | None, **place: Any) -> None:
    """Say where a running router sends a message, why, and who is there; status 1 if nowhere."""
    try:
        with Client(place_of(place)) as client:
            body = {"mt": mt, "sid": sid, "meid": _sent(meid), "from": _sent(sender)}
            answer = client.call("EXPLAIN", body, type=TYPE, name=_table(client, name))
    except ClientError as error:
        raise click.ClickException(str(error)) from error
    for step in answer["steps"]:
        click.echo(step)
    sys.exit(0 if answer["groups"] else 1)
