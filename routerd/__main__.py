"""The command line: run and check a router, look at a running one, change it."""

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from routerd.cli.cli_options import AS_JSON, COUNT, FILE, SECONDS, Place, asks, bus, examples
from routerd.cli.config_file import loaded, warn
from routerd.config import default_config
from routerd.machine.version import installed

STATUSES = "Exit status: 0 for success, 1 for an error, which standard error explains, 2 for a bad command line."


def _versions() -> str:
    """Return one line with the version, its commit, the engine's version and Python's."""
    return "routerd {version}, commit {commit}, engine Proton {engine}, Python {python}".format(**installed())


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(_versions())
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=STATUSES)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show versions and commit.",
)
def main() -> None:
    """Run, check and manage routerd, a message router for AMQP 1.0."""


@main.command(short_help="Show versions and commit.", epilog=examples("routerd version", "routerd version --json"))
@AS_JSON
def version(as_json: bool) -> None:
    """Show the versions of routerd, of its AMQP engine and of Python, and the commit that routerd was built from."""
    click.echo(json.dumps(installed(), indent=2) if as_json else _versions())


@main.command(
    short_help="Run a router.",
    epilog=examples("routerd run", "routerd run --config /etc/routerd/router.conf"),
    context_settings={"allow_extra_args": True},
)
@click.option("-c", "--config", "file", type=FILE, help="The router's configuration: a .conf, .json or .toml file.")
def run(file: Path | None) -> None:
    """Run a router until it gets SIGINT or SIGTERM. Without a file it listens on 127.0.0.1:5672.

    SIGHUP makes it read the file again; SIGUSR1 makes it replace its processes one by one.
    """
    if more := click.get_current_context().args:
        raise click.UsageError(f"{more[0]!r} is not understood; give a configuration as --config {more[0]}")
    config = loaded(file) if file else default_config()
    warn(config)
    supervisor = import_module("routerd.supervise.supervisor")  # late: a check needs none of it
    import_module("shm.contract.failures").watch_process()
    sys.exit(supervisor.run(config))


@main.command(short_help="Check a configuration file.", epilog=examples("routerd check router.conf"))
@click.argument("file", type=FILE)
def check(file: Path) -> None:
    """Report every mistake in FILE, each with its line and the remedy, and warnings. Exit status 1: a mistake.

    The command opens no port and needs no running router.
    """
    config = loaded(file)
    warn(config)
    click.echo(f"{file}: ok ({config.count} {'entity' if config.count == 1 else 'entities'})")


@main.command(
    short_help="Replace a router's processes one by one.",
    epilog=examples("routerd restart --rolling", "routerd restart --rolling --unit routerd@a"),
)
@click.option("--rolling", is_flag=True, required=True, help="Replace one process after the other.")
@click.option("--pid", type=click.IntRange(1), help="Process id of the router's supervisor.")
@click.option("--pid-file", type=FILE, help="A file that holds this process id.")
@click.option("--unit", metavar="NAME", help="The router's systemd unit.")
@bus(help="URL of the router's listener on this machine.")
@click.option("--timeout", type=SECONDS, default=120.0, show_default=True, help="The limit for the whole restart.")
def restart(rolling: bool, timeout: float, **which: Any) -> None:
    """Replace the processes of a router on this machine by new ones, which run the code that is installed now.

    Without an option the command takes the only router that runs here. Use the service manager to stop a router and
    start it.
    """
    if sum(one is not None for one in which.values()) > 1:
        raise click.UsageError("--pid, --pid-file, --unit and --bus each say which router; give one of them")
    import_module("routerd.cli.restart").run(timeout, **which)


@main.command(
    epilog=examples(
        "routerd stat --workers",
        "routerd stat --links --sort unset --reverse --watch 2",
        "routerd stat -c --json --bus amqps://router.example --ssl-trustfile ca.pem",
    )
)
@click.option("-g", "--general", "view", flag_value="router", default="router", help="Show the router (default).")
@click.option("-c", "--connections", "view", flag_value="connections", help="Show connections.")
@click.option("-l", "--links", "view", flag_value="links", help="Show links.")
@click.option("-a", "--addresses", "view", flag_value="addresses", help="Show addresses.")
@click.option("-n", "--nodes", "view", flag_value="nodes", help="Show the routers of the network.")
@click.option("-w", "--workers", "view", flag_value="workers", help="Show processes, and which is the bottleneck.")
@click.option("-m", "--memory", "view", flag_value="memory", help="Show blocks of shared memory.")
@click.option("--json", is_flag=True, help="Print all attributes as JSON.")
@click.option(
    "--watch", type=SECONDS, is_flag=False, flag_value=2.0, metavar="[SECONDS]", help="Repeat, every 2 s by default."
)
@click.option("--sort", metavar="COLUMN", help="Sort by a column of the table.")
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option("--limit", type=COUNT, help="Show at most this many rows.")
@asks
def stat(place: Place, **options: Any) -> None:
    """Show what a running router does."""
    tool = import_module("routerd.cli.stat")  # late: it needs the engine
    tool.run(place, tool.Options(**options))


@main.command(
    short_help="Query or change a running router.",
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
@click.option("--type", metavar="TYPE", help="The entity type, such as listener, address, log or link.")
@click.option("--name", metavar="NAME", help="The entity's name.")
@click.option("--identity", metavar="ID", help="The entity's identity.")
@click.option("--limit", type=COUNT, help="Return at most this many entities or lines.")
@asks
def manage(place: Place, operation: str, **request: Any) -> None:
    """Query or change a running router. The command prints the answer as JSON.

    \b
    query [ATTRIBUTE…]            return all entities, or those of a --type
    create NAME=VALUE…            create an entity
    read                          return one entity, by --name or --identity
    update NAME=VALUE…            change an entity; null restores a default
    delete                        delete an entity
    get-log                       return the last lines of the log
    get-types, get-attributes, get-operations, get-annotations,
    get-schema, get-json-schema   return what the router can be asked for
    get-mgmt-nodes                return the agents of the network
    """
    tool = import_module("routerd.cli.manage")  # late: it needs the engine
    tool.run(place, tool.Ask(operation.lower(), **request))


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

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command as its own group does, which reports errors in its own way."""
        return self._load().invoke(ctx)


for _name, _load, _help in (
    ("table", lambda: import_module("routerd.cli.table").table, "Route tables in files and of a running router."),
    ("route", lambda: import_module("routerd.cli.route").route, "Source routes: what becomes of a message."),
    ("pipeline", lambda: import_module("pipeline.cli").pipeline, "Analyse the flow log on Spark."),
):
    main.add_command(_Late(_name, _load, help=_help))


if __name__ == "__main__":
    main(prog_name="routerd")
