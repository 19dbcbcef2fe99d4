"""`routerd record` and `routerd replay`: what the flight recorder holds, as a file, and that file once more."""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from routerd.cli.cli_options import AS_JSON, FILE, SECONDS, examples, local_router
from routerd.cli.program import Command, Program


@click.command(
    cls=Command,
    short_help="Write what the flight recorder holds.",
    epilog=examples("routerd record", "routerd record --last 10 --output slow.flight --unit routerd@a"),
)
@local_router
@click.option("--last", type=SECONDS, help="Write the last so many seconds; otherwise all that is there.")
@click.option("-o", "--output", "file", type=FILE, help="The file to write; default: ROUTER.flight in this directory.")
@AS_JSON
def record(last: float | None, file: Path | None, as_json: bool, **which: Any) -> None:
    """Write the records of the core of a router on this machine to a file, which only its owner may read.

    The router needs `flightRecords` in its configuration, and goes on meanwhile. The file begins a little earlier than
    `--last` says if a replay needs that.
    """
    found = import_module("routerd.cli.restart").find(**which)
    path, records = import_module("routerd.replay.commands").record(found.prefix, found.id, last, file)
    click.echo(json.dumps({"file": str(path), "records": records}) if as_json else f"{path}: {records} records")


@click.command(
    cls=Program,
    short_help="Run a core's records again.",
    epilog=examples("routerd replay it.flight", "routerd replay it.flight --print --before 1200"),
)
@click.argument("file", type=FILE)
@click.option("--print", "shown", is_flag=True, help="Print each record.")
@click.option("--before", metavar="RECORD", type=click.IntRange(0), help="Stop before the record of this number.")
@click.option("--until-crash", is_flag=True, help="Expect that the core dies: exit status 0 if it does.")
@click.option(
    "--minimise", is_flag=True, help="Write the records that still make the core die to FILE.small, which it replaces."
)
@click.option("--no-run", is_flag=True, help="Print the records without running the core.")
def replay(file: Path, **how: Any) -> None:
    """Run the core over the records in FILE, and say where its work first differs from what was recorded.

    Exit status 0: it did the same; 1: it did something else, or died; 2: the file cannot be replayed.
    """
    sys.exit(import_module("routerd.replay.commands").replay(file, **how))
