"""`routerd route`: shows what becomes of a message with a source route."""

import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console

from routerd.cli import cli_options, printed, printed_table
from routerd.cli.cli_options import AS_JSON, FILE, asks, examples
from routerd.cli.config_file import loaded
from routerd.cli.program import CommandGroup
from routerd.cli.route_steps import Router, Step
from routerd.cli.route_steps import explain as steps_of
from routerd.source_routes.access import KINDS, LOCAL
from routerd.source_routes.address import Address, Route, parse_route, show_route
from routerd.translate.identities import Identities
from routerd.translate.source_routes import source_routes
from shm.contract.text import printable

SOURCES = "user:ID, link:TARGET, listener:NAME, worker:ADDRESS or uplink:CONNECTOR"


@click.group(cls=CommandGroup)
def route() -> None:
    """Source routes: what becomes of a message."""


@route.command(
    "explain",
    short_help="Show how a message would go, by configuration files.",
    epilog=examples("routerd route explain --config router.conf 'D1=>B2'"),
)
@click.argument("onward")
@click.option(
    "--config", "files", multiple=True, type=FILE, help="A router's configuration; one for each router on the way."
)
@click.option("--return", "returning", default="client", show_default=True, metavar="ROUTE", help="The return route.")
@click.option("--from", "sources", multiple=True, metavar="SOURCE", help=f"Who sends: {SOURCES}.")
@click.option("--reply", is_flag=True, help="Show the way of the reply, too.")
@AS_JSON
def explain(
    onward: str, files: tuple[Path, ...], returning: str, sources: tuple[str, ...], reply: bool, as_json: bool
) -> None:
    """Show how a message with the route ONWARD, such as 'D1=>B2', would go. Exit status 1: a route worker refuses it.

    The command sends nothing and needs no running router. A message is delivered at the first address for which
    no FILE has a route worker.
    """
    way = _asked(onward, "ONWARD"), _asked(returning, "--return")
    routers = _routers(files)
    found = list(steps_of(*way, _source(sources), routers))
    parts = [("message", found)]
    if reply:
        parts += _reply(found, routers)
    if as_json:
        printed.print_json({name: [_record(step) for step in steps] for name, steps in parts})
    else:
        for name, steps in parts:
            _show(name, steps)
    sys.exit(1 if any(step.refused for _, steps in parts for step in steps) else 0)


@route.command(
    "trace", short_help="Send one live message along a route.", epilog=examples("routerd route trace 'D1=>B2'")
)
@click.argument("onward")
@AS_JSON
@asks
def trace(onward: str, as_json: bool, place: cli_options.Place) -> None:
    """Send one live message along the route ONWARD and report its way. Exit status 1: a route worker refuses it.

    The message passes the route workers as they run. From the last one it returns here and does not reach the last
    address of ONWARD.
    """
    cli_options.check_utf8(onward)
    way = _asked(onward, "ONWARD")
    if len(way) < 2:
        text = "give at least a route worker and a destination, such as D1=>B2"
        raise click.BadParameter(text, param_hint="ONWARD")
    route_trace = import_module("routerd.cli.route_trace")  # loads Proton, which nothing else here needs
    followed = route_trace.follow(place, way)
    if as_json:
        printed.print_json(msgspec.structs.asdict(followed) | {"returning": [str(one) for one in followed.returning]})
    else:
        for line in route_trace.lines(followed, way):
            click.echo(printable(line))
    sys.exit(1 if followed.refused or followed.lost else 0)


def _asked(text: str, what: str) -> Route:
    try:
        return parse_route(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}; give addresses such as D1=>B2", param_hint=what) from None


def _source(given: tuple[str, ...]) -> frozenset[str]:
    for one in given:
        kind, _, name = one.partition(":")
        if kind not in KINDS or not name:
            raise click.BadParameter(f"{one!r} is no source; give {SOURCES}", param_hint="--from")
    return frozenset(given or (LOCAL,))


def _routers(files: Iterable[Path]) -> list[Router]:
    found: list[Router] = []
    owners: dict[Address, str] = {}
    for file in files:
        config = loaded(file)
        router = Router(config.router.id, source_routes(config, Identities()))
        for address in router.workers:
            if owners.setdefault(address, str(file)) != str(file):
                raise click.ClickException(
                    f"{file}: there is a worker {address}, and one in {owners[address]}; "
                    "a route through both routers needs different addresses"
                )
        found.append(router)
    return found


def _reply(steps: list[Step], routers: list[Router]) -> list[tuple[str, list[Step]]]:
    """Return the steps of the receiver's reply; nothing if no receiver got the message."""
    arrived = next((step for step in steps if step.arrived and not step.copy), None)
    if arrived is None:
        return []
    me = arrived.onward[0]
    if arrived.returning and arrived.state == "complete":
        return [("reply", list(steps_of(arrived.returning, (me,), frozenset({f"link:{me}"}), routers)))]
    why = f"the return route is {arrived.state}: a change of scope on the way was neither traced nor wrapped"
    if not arrived.returning:
        why = "there is no return route to reply over"
    what = f"refused, amqp:precondition-failed: {why}"
    return [("reply", [Step(str(me), "", what, state=arrived.state, refused="unusable-return")])]


def _record(step: Step) -> dict[str, Any]:
    return {
        "at": step.at,
        "router": step.router,
        "what": step.what,
        "onward": list(map(str, step.onward)),
        "return": list(map(str, step.returning)),
        "state": step.state,
        "copy": step.copy,
        "refused": step.refused or None,
    }


def _show(name: str, steps: list[Step]) -> None:
    table = printed_table.table("at", "router", "what", "onward", "return", "return is", title=name)
    for step in steps:
        at = f"{step.at} (copy {step.copy})" if step.copy else step.at
        cells = (at, step.router, step.what, show_route(step.onward), show_route(step.returning), step.state)
        printed_table.add_row(table, *cells, style="red" if step.refused else "")
    Console().print(table)
