"""The command line: run and check a router, look at a running one, change it."""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from routerd.asking import asks, place_of
from routerd.config import Config, ConfigError, default_config, load


def installed_version() -> str:
    """The version of this router, or what to do to have one."""
    try:
        return version("routerd")
    except PackageNotFoundError:
        return "not installed; run make build"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(installed_version(), prog_name="routerd")
def main() -> None:
    """A message router for AMQP 1.0."""


@main.command()
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), help="A .conf, .json or .toml file.")
def run(file: Path | None) -> None:
    """Run a router until SIGINT or SIGTERM; without a file it listens on 127.0.0.1:5672."""
    config = _loaded(file) if file else default_config()
    for warning in config.warnings:
        click.echo(warning, err=True)
    supervisor = import_module("routerd.supervisor")  # late: a check needs none of it
    sys.exit(supervisor.run(config))


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
def check(file: Path) -> None:
    """Say every mistake in FILE, each with its line and what would be right."""
    config = _loaded(file)
    for warning in config.warnings:
        click.echo(warning, err=True)
    click.echo(f"{file}: ok ({config.count} {'entity' if config.count == 1 else 'entities'})")


@main.command()
@click.option("--rolling", is_flag=True, required=True, help="One process after the other.")
@click.option("--pid", type=click.IntRange(1), help="Process id of the router's supervisor.")
@click.option("--pid-file", type=click.Path(path_type=Path), help="A file that holds it.")
@click.option("--unit", metavar="NAME", help="The router's systemd unit.")
@click.option("-b", "--bus", metavar="URL", help="Where the router listens, on this machine.")
@click.option("--timeout", default=120.0, show_default=True, metavar="SECONDS", help="For all of it.")
def restart(timeout: float, **which: Any) -> None:
    """Have a router on this machine run by new processes, with the code installed now.

    Without an option it is the only one that runs here. To stop and start one, use its service manager.
    """
    del which["rolling"]  # there is no other way here
    sys.exit(import_module("routerd.restart").run(**which, timeout=timeout))


@main.command()
@click.option("-g", "--general", "view", flag_value="router", default="router", help="The router (default).")
@click.option("-c", "--connections", "view", flag_value="connections", help="Connections.")
@click.option("-l", "--links", "view", flag_value="links", help="Links.")
@click.option("-a", "--addresses", "view", flag_value="addresses", help="Addresses.")
@click.option("-n", "--nodes", "view", flag_value="nodes", help="Routers of the network.")
@click.option("-w", "--workers", "view", flag_value="workers", help="Processes, and which is the bottleneck.")
@click.option("-m", "--memory", "view", flag_value="memory", help="Blocks of shared memory.")
@click.option("--json", is_flag=True, help="All attributes, as JSON.")
@click.option(
    "--watch", type=float, is_flag=False, flag_value=2.0, metavar="[SECONDS]", help="Look again and again."
)
@click.option("--sort", metavar="COLUMN", help="Sort by a column of the table.")
@click.option("--reverse", is_flag=True, help="The largest, or last, first.")
@click.option("--limit", type=click.IntRange(1), help="So many at most.")
@asks
def stat(
    view: str,
    json: bool,
    watch: float | None,
    sort: str | None,
    reverse: bool,
    limit: int | None,
    **place: Any,
) -> None:
    """Show what a running router does."""
    tool = import_module("routerd.stat")  # late: it needs the engine
    sys.exit(tool.run(place_of(place), tool.Options(view, json, watch, sort, reverse, limit)))


@main.command()
@click.argument("operation")
@click.argument("arguments", nargs=-1)
@click.option("--type", "type_", metavar="TYPE", help="Entity type: listener, address, log, link, ….")
@click.option("--name", help="Name of the entity.")
@click.option("--identity", help="Identity of the entity.")
@click.option("--limit", type=click.IntRange(1), help="So many at most.")
@asks
def manage(
    operation: str,
    arguments: tuple[str, ...],
    type_: str | None,
    name: str | None,
    identity: str | None,
    limit: int | None,
    **place: Any,
) -> None:
    """Ask a running router, or change it: query [ATTRIBUTE…], create NAME=VALUE…, read, update NAME=VALUE…,
    delete, get-types, get-attributes, get-operations, get-schema, get-mgmt-nodes, get-log."""
    tool = import_module("routerd.manage")  # late: it needs the engine
    if operation.lower() not in tool.OPERATIONS:
        raise click.UsageError(
            f"there is no operation {operation!r}; give one of {', '.join(tool.OPERATIONS)}"
        )
    sys.exit(tool.run(place_of(place), tool.Ask(operation.lower(), arguments, type_, name, identity, limit)))


class _Late(click.Group):
    """Commands whose module is loaded when one of them is asked for."""

    def __init__(self, name: str, load: Callable[[], click.Group], help: str) -> None:
        super().__init__(name, help=help)
        self._load = load

    def list_commands(self, ctx: click.Context) -> list[str]:
        return self._load().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self._load().get_command(ctx, cmd_name)


main.add_command(
    _Late(
        "table",
        lambda: import_module("routerd.table").table,
        help="Route tables: check, show, compare and explain them.",
    )
)
main.add_command(
    _Late(
        "route",
        lambda: import_module("routerd.route").route,
        help="Source routes: what would become of a message.",
    )
)
main.add_command(
    _Late(
        "pipeline",
        lambda: import_module("pipeline.cli").pipeline,
        help="The flow log on Spark: generate, run, plan.",
    )
)


def _loaded(file: Path) -> Config:
    try:
        return load(file)
    except ConfigError as error:
        click.echo(error, err=True)
        sys.exit(1)


if __name__ == "__main__":
    main(prog_name="routerd")
