"""The command line: run and check a router, look at a running one, change it."""

import logging
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from routerd.cli.cli_options import SECONDS, asks, bus, examples, place_of
from routerd.config import Config, ConfigError, default_config, load
from routerd.config.source import closest
from routerd.log.journald import for_stderr

STATUSES = "Exit status: 0; 1 when something is wrong, and standard error says what; 2 for the command line."


def installed_version() -> str:
    """Return the installed version, or how to install one."""
    try:
        return version("routerd")
    except PackageNotFoundError:
        return "not installed; run make build"


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=STATUSES)
@click.version_option(installed_version(), prog_name="routerd")
def main() -> None:
    """A message router for AMQP 1.0."""


@main.command(
    short_help="Run a router.",
    epilog=examples("routerd run", "routerd run --config /etc/routerd/router.conf"),
    context_settings={"allow_extra_args": True},
)
@click.option(
    "-c", "--config", "file", type=click.Path(path_type=Path, readable=False), help="A .conf, .json or .toml file."
)
def run(file: Path | None) -> None:
    """Run a router until SIGINT or SIGTERM; without a file it listens on 127.0.0.1:5672.

    SIGHUP has it read the file again, SIGUSR1 replaces its processes one after the other.
    """
    if more := click.get_current_context().args:
        raise click.UsageError(f"{more[0]!r} is not understood; give a configuration as --config {more[0]}")
    config = _loaded(file) if file else default_config()
    _warn(config)
    supervisor = import_module("routerd.supervise.supervisor")  # late: a check needs none of it
    import_module("shm.contract.failures").watch_process()
    sys.exit(supervisor.run(config))


@main.command(short_help="Say every mistake in a configuration.", epilog=examples("routerd check router.conf"))
@click.argument("file", type=click.Path(path_type=Path, readable=False))
def check(file: Path) -> None:
    """Say every mistake in FILE, each with its line and what would be right; status 1 if there is one.

    Warnings are told, too. No port is opened, and no router needs to run.
    """
    config = _loaded(file)
    _warn(config)
    click.echo(f"{file}: ok ({config.count} {'entity' if config.count == 1 else 'entities'})")


@main.command(
    short_help="Replace a router's processes one by one.",
    epilog=examples("routerd restart --rolling", "routerd restart --rolling --unit routerd@a"),
)
@click.option("--rolling", is_flag=True, required=True, help="One process after the other.")
@click.option("--pid", type=click.IntRange(1), help="Process id of the router's supervisor.")
@click.option("--pid-file", type=click.Path(path_type=Path, readable=False), help="A file that holds it.")
@click.option("--unit", metavar="NAME", help="The router's systemd unit.")
@bus(help="Where the router listens, on this machine.")
@click.option("--timeout", type=SECONDS, default=120.0, show_default=True, metavar="SECONDS", help="For all of it.")
def restart(timeout: float, **which: Any) -> None:
    """Have a router on this machine run by new processes, with the code installed now.

    Without an option it is the only one that runs here. To stop and start one, use its service manager.
    """
    del which["rolling"]  # there is no other way here
    if sum(one is not None for one in which.values()) > 1:
        raise click.UsageError("--pid, --pid-file, --unit and --bus each say which router; give one of them")
    sys.exit(import_module("routerd.cli.restart").run(**which, timeout=timeout))


@main.command(
    epilog=examples(
        "routerd stat --workers",
        "routerd stat --links --sort unset --reverse --watch 2",
        "routerd stat -c --json --bus amqps://router.example --ssl-trustfile ca.pem",
    )
)
@click.option("-g", "--general", "view", flag_value="router", default="router", help="The router (default).")
@click.option("-c", "--connections", "view", flag_value="connections", help="Connections.")
@click.option("-l", "--links", "view", flag_value="links", help="Links.")
@click.option("-a", "--addresses", "view", flag_value="addresses", help="Addresses.")
@click.option("-n", "--nodes", "view", flag_value="nodes", help="Routers of the network.")
@click.option("-w", "--workers", "view", flag_value="workers", help="Processes, and which is the bottleneck.")
@click.option("-m", "--memory", "view", flag_value="memory", help="Blocks of shared memory.")
@click.option("--json", is_flag=True, help="All attributes, as JSON.")
@click.option("--watch", type=SECONDS, is_flag=False, flag_value=2.0, metavar="[SECONDS]", help="Look again and again.")
@click.option("--sort", metavar="COLUMN", help="Sort by a column of the table.")
@click.option("--reverse", is_flag=True, help="The largest, or last, first.")
@click.option("--limit", type=click.IntRange(1), help="So many at most.")
@asks
def stat(
    view: str, json: bool, watch: float | None, sort: str | None, reverse: bool, limit: int | None, **place: Any
) -> None:
    """Show what a running router does."""
    tool = import_module("routerd.cli.stat")  # late: it needs the engine
    sys.exit(tool.run(place_of(place), tool.Options(view, json, watch, sort, reverse, limit)))


@main.command(
    short_help="Ask a running router, or change it.",
    epilog=examples(
        "routerd manage query --type link linkName owningAddr deliveryCount",
        "routerd manage create --type address --name news prefix=news distribution=multicast",
        "routerd manage update --type log --name log/SERVER enable=debug+",
        "routerd manage delete --type address --name news",
        "routerd manage get-attributes --type listener",
    ),
)
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
    """Ask a running router, or change it; answers are JSON.

    \b
    query [ATTRIBUTE…]          all entities, or those of a --type
    create NAME=VALUE…          a new entity
    read                        one entity, by --name or --identity
    update NAME=VALUE…          change it; null: back to the default
    delete                      remove it
    get-log                     the last lines of the log
    get-types, get-attributes, get-operations, get-annotations,
    get-schema, get-json-schema  what there is to ask for
    get-mgmt-nodes              the agents of the network
    """
    tool = import_module("routerd.cli.manage")  # late: it needs the engine
    ask = tool.Ask(operation.lower(), arguments, type_, name, identity, limit)
    if ask.operation not in tool.OPERATIONS:
        guess = closest(operation, tool.OPERATIONS)
        instead = f"did you mean {guess}?" if guess else f"give one of {', '.join(tool.OPERATIONS)}"
        raise click.UsageError(f"there is no operation {operation!r}; {instead}")
    if mistake := tool.mistake(ask):
        raise click.UsageError(mistake)
    sys.exit(tool.run(place_of(place), ask))


class _Late(click.Group):
    """A group whose module is imported when one of its commands is used."""

    def __init__(self, name: str, load: Callable[[], click.Group], help: str) -> None:
        super().__init__(name, help=help)
        self._load = load

    def list_commands(self, ctx: click.Context) -> list[str]:
        self.commands = self._load().commands  # click also reads this to suggest a command
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        self.list_commands(ctx)
        return super().get_command(ctx, cmd_name)


for _name, _load, _help in (
    ("table", lambda: import_module("routerd.cli.table").table, "Route tables: in files, and of a running router."),
    ("route", lambda: import_module("routerd.cli.route").route, "Source routes: what becomes of a message."),
    ("pipeline", lambda: import_module("pipeline.cli").pipeline, "The flow log on Spark: tables, findings, plans."),
):
    main.add_command(_Late(_name, _load, help=_help))


def _loaded(file: Path) -> Config:
    try:
        return load(file)
    except ConfigError as error:
        click.echo(for_stderr(str(error), logging.ERROR), err=True)
        sys.exit(1)


def _warn(config: Config) -> None:
    for warning in config.warnings:
        click.echo(for_stderr(str(warning), logging.WARNING), err=True)


if __name__ == "__main__":
    main(prog_name="routerd")
