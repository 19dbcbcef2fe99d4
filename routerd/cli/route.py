"""`routerd route`: source routes at the command line."""

import json
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from routerd.cli.cli_options import asks, examples
from routerd.cli.cli_options import place_of as place_of_options
from routerd.cli.route_steps import Step
from routerd.cli.route_steps import explain as steps_of
from routerd.config import ConfigError, load
from routerd.config.route_workers import place_of
from routerd.source_routes.access import KINDS, LOCAL
from routerd.source_routes.address import Address, Route, parse_route, show_route
from routerd.source_routes.place import Place

_CLIENT = "client"


@click.group()
def route() -> None:
    """Source routes: what would become of a message."""


@route.command(
    "explain",
    short_help="Say how a message would go.",
    epilog=examples("routerd route explain --config router.conf 'D1=>B2'"),
)
@click.argument("onward")
@click.option(
    "--config",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="A router's configuration; again for each further router on the way.",
)
@click.option("--return", "returning", default=_CLIENT, show_default=True, help="The sender's return route.")
@click.option(
    "--from",
    "sources",
    multiple=True,
    metavar="SOURCE",
    help="Who sends: user:ID, link:TARGET, listener:NAME, worker:ADDRESS or uplink:CONNECTOR.",
)
@click.option("--reply", is_flag=True, help="Follow the reply, too.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def explain(
    onward: str, files: tuple[Path, ...], returning: str, sources: tuple[str, ...], reply: bool, as_json: bool
) -> None:
    """Say how a message with the route ONWARD, such as 'D1=>B2', would go; status 1 if it is refused.

    Nothing is sent, and no router needs to run. It is delivered at an address that is no worker in a FILE.
    """
    way = _asked(onward, "ONWARD"), _asked(returning, "--return")
    places = _places(files)
    found = list(steps_of(*way, _source(sources), places))
    parts = [("message", found)]
    if reply:
        parts += _reply(found, places)
    if as_json:
        click.echo(json.dumps({name: [_record(step) for step in steps] for name, steps in parts}, indent=2))
    else:
        for name, steps in parts:
            _show(name, steps)
    sys.exit(1 if any(step.refused for _, steps in parts for step in steps) else 0)


@route.command(
    "trace", short_help="Take one live message along a route.", epilog=examples("routerd route trace 'D1=>B2'")
)
@click.argument("onward")
@asks
def trace(onward: str, **options: Any) -> None:
    """Take one live message along the route ONWARD, up to its last worker; status 1 if it is refused.

    It passes the workers as they run, and comes back here instead of to the last address.
    """
    way = _asked(onward, "ONWARD")
    if len(way) < 2:
        text = "give at least a worker and a destination, such as D1=>B2"
        raise click.BadParameter(text, param_hint="ONWARD")
    following = import_module("routerd.cli.route_trace")  # loads Proton, which nothing else here needs
    try:
        followed = following.follow(place_of_options(options), way)
    except following.ClientError as error:
        raise click.ClickException(str(error)) from error
    for line in following.told(followed, way):
        click.echo(line)
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
            known = ", ".join(f"{kind}:NAME" for kind in KINDS)
            raise click.BadParameter(f"{one!r} is no source; give one of {known}", param_hint="--from")
    return frozenset(given or (LOCAL,))


def _places(files: Iterable[Path]) -> tuple[Place, ...]:
    found: list[Place] = []
    owners: dict[Address, str] = {}
    for file in files:
        try:
            config = load(file)
        except ConfigError as error:
            click.echo(error, err=True)
            sys.exit(1)
        place = place_of(config.router.id, config.entities)
        for address in place.workers:
            if owners.setdefault(address, str(file)) != str(file):
                raise click.ClickException(
                    f"{file}: there is a worker {address}, and one in {owners[address]}; "
                    "a route through both routers needs different addresses"
                )
        found.append(place)
    return tuple(found)


def _reply(steps: list[Step], places: tuple[Place, ...]) -> list[tuple[str, list[Step]]]:
    """Return the steps of the receiver's reply; nothing if no receiver got the message."""
    arrived = next((step for step in steps if step.arrived and not step.copy), None)
    if arrived is None:
        return []
    me = arrived.onward[0]
    if arrived.returning and arrived.state == "complete":
        return [("reply", list(steps_of(arrived.returning, (me,), frozenset({f"link:{me}"}), places)))]
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
    table = Table(title=name, box=box.SIMPLE, title_justify="left")
    for column in ("at", "router", "what", "onward", "return", "return is"):
        table.add_column(column, overflow="fold")
    for step in steps:
        at = f"{step.at} (copy {step.copy})" if step.copy else step.at
        cells = (at, step.router, step.what, show_route(step.onward), show_route(step.returning), step.state)
        table.add_row(*map(Text, cells), style="red" if step.refused else "")
    Console().print(table)
