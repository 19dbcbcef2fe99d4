"""`routerd table push`, `who` and `ask`: route tables of a running router, through its management agent."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.table import Table

from core.rmr.tables.decoding import octets_of, stray
from routerd.cli import printed, printed_table
from routerd.cli.cli_options import AS_JSON, Place, asks, examples
from routerd.cli.client import Client, ClientError, long_type
from routerd.cli.program import Command
from routerd.cli.table_options import FILE, pieces, question
from shm.contract.numbers import counted
from shm.contract.text import printable

PIECE = 1 << 17  # characters of a table per request: far below the agent's limit
PUSH_SECONDS = 60.0  # the shortest timeout of a push: the router reads all of a table before it answers
TYPE = long_type("routeTable")
TITLES = {
    "table": "table", "endpoint": "application", "controlIdentity": "control port", "tableId": "runs", "mapId": "map",
    "state": "state",
}  # fmt: skip
NAME = click.option("--table", "name", metavar="NAME", help="The route table, if the router has several.")


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


def _sent(text: str) -> str | bytes:
    """Return the text as AMQP can carry it: as binary if it is not UTF-8."""
    return octets_of(text) if stray(text) else text


@click.command(
    cls=Command,
    short_help="Load a file into a running router.",
    epilog=examples("routerd table push table.rt", "generate-table | routerd table push -"),
)
@click.argument("file", type=FILE)
@NAME
@AS_JSON
@asks
def push(file: Path, name: str | None, as_json: bool, place: Place) -> None:
    """Load the tables and maps in FILE into a running router. The router keeps what it has in place of a bad one."""
    text = "".join(pieces(file))
    try:
        with Client(msgspec.structs.replace(place, timeout=max(place.timeout, PUSH_SECONDS))) as client:
            found = _table(client, name)
            answer: Any = {}
            for at in range(0, max(1, len(text)), PIECE):
                body = {"text": _sent(text[at : at + PIECE]), "first": at == 0, "last": at + PIECE >= len(text)}
                answer = client.call("PUSH", body, type=TYPE, name=found)
    except ClientError as error:
        raise ClientError(f"{file}: {error}") from error
    if as_json:
        printed.print_json({"table": found, "outcomes": answer["outcomes"]})
        return
    for one in answer["outcomes"]:
        table_id = one["table_id"] or "<id-missing>"
        click.echo(printable(f"{found}: {one['kind']} {table_id} in use ({counted(one['entries'], 'entry')})"))


@click.command(
    cls=Command, short_help="Show a running router's tables and endpoints.", epilog=examples("routerd table who")
)
@NAME
@AS_JSON
@asks
def who(name: str | None, as_json: bool, place: Place) -> None:
    """Show the tables that a running router uses, and who serves each of their endpoints."""
    with Client(place) as client:
        _names(client, name)
        tables = [row for row in client.query("routeTable") if name in (None, row["name"])]
        endpoints, managers, applications = (
            [row for row in client.query(kind) if name in (None, row["table"])]
            for kind in ("routeTable.endpoint", "routeTable.manager", "routeTable.application")
        )
    if as_json:
        found = {"tables": tables, "endpoints": endpoints, "managers": managers, "applications": applications}
        printed.print_json(found)
        return
    for line in [*map(_heading, tables), *map(_manager, managers)]:
        click.echo(line)
    shown = printed_table.table("table", "endpoint", "state", "sent", "missed", numbers=("sent", "missed"))
    for row in endpoints:
        counts = str(row["deliveryCount"]), str(row["missedCount"])
        printed_table.add_row(shown, row["table"], row["endpoint"], _state(row), *counts)
    console = Console(soft_wrap=True)
    console.print(shown)
    if applications:
        console.print(_applications(applications))
        for row in applications:
            if row["state"] != "ok":
                click.echo(_lagging(row))


def _manager(row: dict[str, Any]) -> str:
    found = f"{row['table']}: Route Manager {row['manager']}: {row['state']}"
    if not row.get("reason"):
        return printable(found)
    return printable(f"{found}: {row.get('tableId') or '<id-missing>'}: {row['reason']}")


def _lagging(row: dict[str, Any]) -> str:
    who = row.get("endpoint") or row["controlIdentity"]  # it has not said where it receives
    found = f"{row['table']}: {who}: {row['state']} since {_time(row['since'])}"
    return printable(f"{found}: {row['reason']}" if row.get("reason") else found)


def _applications(rows: list[dict[str, Any]]) -> Table:
    """Return the table of the applications whose Route Manager this router is."""
    names = [name for name in TITLES if name != "mapId" or any(row.get(name) for row in rows)]
    shown = printed_table.table(*(TITLES[name] for name in names))
    for row in rows:
        printed_table.add_row(shown, *(row.get(one) or "-" for one in names))
    return shown


def _heading(row: dict[str, Any]) -> str:
    if not row.get("installed"):
        return printable(f"{row['name']}: no table yet{': ' + row['lastError'] if row.get('lastError') else ''}")
    found = f"{row['name']}: table {row.get('tableId', '<id-missing>')}, {counted(row['entryCount'], 'entry')}"
    return printable(f"{found}, from {row['origin']}, in use since {_time(row['installed'])}")


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _state(row: dict[str, Any]) -> str:
    if row["live"]:
        return "live"
    return "nobody" if row.get("worker") is None else f"worker {row['worker']} connects"


@click.command(
    cls=Command,
    short_help="Show where a running router sends a message.",
    epilog=examples("routerd table ask --mt 1000 --sid 10"),
)
@question
@NAME
@AS_JSON
@asks
def ask(name: str | None, as_json: bool, place: Place, **message: Any) -> None:
    """Show where a running router sends a message, why, and who is there. Exit status 1: nowhere."""
    with Client(place) as client:
        body = {"mt": message["message_type"], "sid": message["subscription"]}
        body |= {"meid": _sent(message["meid"]), "from": _sent(message["sender"])}
        answer = client.call("EXPLAIN", body, type=TYPE, name=_table(client, name))
    printed.print_steps(answer["steps"], bool(answer["groups"]), as_json)
    sys.exit(0 if answer["groups"] else 1)
