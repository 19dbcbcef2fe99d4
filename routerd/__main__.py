"""The command line: run and check a router, look at a running one, change it."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from routerd.cli.cli_options import (
    AS_JSON,
    AS_JSON_LINES,
    COUNT,
    FILE,
    SECONDS,
    Place,
    application_properties,
    asks,
    check_utf8,
    examples,
    goes_by_address,
    local_router,
)
from routerd.cli.flight import record, replay
from routerd.cli.program import STATUSES, ProgramGroup
from routerd.cli.qdstat_options import Stat
from routerd.machine.version import installed
from shm.contract.numbers import counted
from shm.memory.journal import LEVELS

MOST_TTL = (2**32 - 1) // 1000  # seconds: a ttl is an unsigned number of milliseconds (AMQP 1.0 part 3.2.1)
OCTETS = click.IntRange(1, 2**30)  # a client holds a message in memory several times
OCTETS.name = "count"


def _versions() -> str:
    """Return one line with the version, its commit, the engine's version and Python's."""
    return "routerd {version}, commit {commit}, engine Proton {engine}, Python {python}".format(**installed())


def _show_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(_versions())
        context.exit()


@click.group(cls=ProgramGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=STATUSES)
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

    SIGHUP makes it read the file again; SIGUSR1 makes it replace its processes one by one. Exit status 78: the file has
    a mistake, and another start does not help.
    """
    if more := click.get_current_context().args:
        raise click.UsageError(f"{more[0]!r} is not understood; give a configuration as --config {more[0]}")
    files = import_module("routerd.cli.config_file")  # late: commands that ask a router need none of it
    config = files.loaded_or_default(file, os.EX_CONFIG)  # a unit makes no other start then
    files.warn(config)
    supervisor = import_module("routerd.supervise.supervisor")  # late: a check needs none of it
    import_module("shm.contract.failures").watch_process()
    sys.exit(supervisor.run(config))


@main.command(short_help="Check a configuration file.", epilog=examples("routerd check router.conf"))
@click.argument("file", type=FILE)
@AS_JSON
def check(file: Path, as_json: bool) -> None:
    """Report every mistake in FILE, each with its line and the remedy, and warnings. Exit status 1: a mistake.

    The command opens no port and needs no running router.
    """
    files = import_module("routerd.cli.config_file")  # late: commands that ask a router need none of it
    if as_json:
        sys.exit(files.print_findings(file))
    config = files.loaded(file)
    files.warn(config, files.expiring(config))
    click.echo(f"{file}: ok ({counted(config.count, 'entity')})")


@main.command(
    short_help="Find what on this machine hurts a router.",
    epilog=examples("routerd doctor", "routerd doctor --config /etc/routerd/router.conf --json"),
)
@click.option("-c", "--config", "file", type=FILE, help="The configuration of the router that is to run here.")
@AS_JSON
def doctor(file: Path | None, as_json: bool) -> None:
    """Look at CPUs, clock, memory and limits of this machine. The command says what hurts a router, and the remedy.

    It changes nothing and needs no running router. Run it as the router's user and in its unit or container, since
    limits differ. Exit status 1: a router with this configuration cannot start here.
    """
    config = import_module("routerd.cli.config_file").loaded_or_default(file)
    import_module("routerd.cli.doctor").run(config, as_json)


@main.command(
    short_help="Replace a router's processes one by one.",
    epilog=examples("routerd restart --rolling", "routerd restart --rolling --unit routerd@a --json"),
)
@click.option("--rolling", is_flag=True, required=True, help="Replace one process after the other.")
@local_router
@click.option("--timeout", type=SECONDS, default=120.0, show_default=True, help="The limit for the whole restart.")
@AS_JSON
def restart(rolling: bool, timeout: float, as_json: bool, **which: Any) -> None:
    """Replace the processes of a router on this machine by new ones, which run the code that is installed now.

    Without an option the command takes the only router that runs here. Use the service manager to stop a router and
    start it. With --json the progress goes to standard error.
    """
    tool = import_module("routerd.cli.restart")
    tool.run(tool.find(**which), timeout, as_json)


@main.command(
    short_help="Have a router read its configuration again.",
    epilog=examples("routerd reload", "routerd reload --unit routerd@a"),
)
@local_router
@click.option("--timeout", type=SECONDS, default=10.0, show_default=True, help="The limit for the reload.")
@AS_JSON
def reload(timeout: float, as_json: bool, **which: Any) -> None:
    """Have a router on this machine read its configuration file again. The command prints what changed.

    Without an option the command takes the only router that runs here. Exit status 1: the file has a mistake, which
    standard error names, and the router keeps the configuration that it has.
    """
    tool, find = import_module("routerd.cli.reload"), import_module("routerd.cli.restart").find
    tool.run(find(**which), timeout, as_json)


main.add_command(record)
main.add_command(replay)


# The option of each table, its view, its short form and its help.
_VIEWS = (
    ("--general", "router", ("-g", "Show the router (default).")),
    ("--connections", "connections", ("-c", "Show connections.")),
    ("--connectors", "connectors", ("", "Show connectors, and why some fail.")),
    ("--links", "links", ("-l", "Show links.")),
    ("--addresses", "addresses", ("-a", "Show addresses.")),
    ("--traffic", "traffic", ("", "Show what passes on each connection.")),
    ("--link-routes", "link_routes", ("", "Show link routes, and why some are not active.")),
    ("--auto-links", "auto_links", ("", "Show auto links, and why some are not active.")),
    ("--nodes", "nodes", ("-n", "Show the routers of the network.")),
    ("--workers", "workers", ("-w", "Show processes, and which is the bottleneck.")),
    ("--memory", "memory", ("-m", "Show blocks of shared memory.")),
)


def _views(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose a table; the command gets each as whether it was given."""
    for option, view, (short, text) in reversed(_VIEWS):
        names = [short] if short else []
        command = click.option(*names, option, f"view_{view}", is_flag=True, help=text)(command)
    return command


@main.command(
    cls=Stat,
    epilog=examples(
        "routerd stat --workers",
        "routerd stat --links --sort unset --reverse --watch 2",
        "routerd stat --links --address 'orders.*' --stuck --router all",
        "routerd stat -c --json --bus amqps://router.example --ssl-trustfile ca.pem",
    ),
)
@_views
@click.option(
    "--json", is_flag=True, help="Print all attributes as JSON, an array; with --watch one array after another."
)
@click.option(
    "--watch", type=SECONDS, is_flag=False, flag_value=2.0, metavar="[SECONDS]", help="Repeat, every 2 s by default."
)
@click.option("--sort", metavar="COLUMN", help="Sort by a column of the table.")
@click.option("--reverse", is_flag=True, help="Reverse the order.")
@click.option("--limit", type=COUNT, help="Show at most this many rows.")
@click.option("--address", metavar="TEXT", help="Show the rows of this address; * stands for any characters.")
@click.option("--connection", type=COUNT, help="Show the rows of this connection.")
@click.option("--stuck", is_flag=True, help="Show links whose deliveries nobody settled, or took, for 10 s.")
@asks
def stat(place: Place, **options: Any) -> None:
    """Show what a running router does. With --router all the command asks all routers of the network."""
    check_utf8(options["address"], options["sort"])
    chosen = [option for option, view, _ in _VIEWS if options.pop(f"view_{view}")]
    if len(chosen) > 1:
        raise click.UsageError(f"{' and '.join(chosen)} are {len(chosen)} tables; give one of them")
    view = next((view for option, view, _ in _VIEWS if option in chosen), "router")
    tool = import_module("routerd.cli.stat")  # late: it needs the engine
    tool.run(place, tool.Options(view, **options))


@main.command(
    short_help="Query or change a running router.",
    epilog=examples(
        "routerd manage query --type link linkName owningAddr deliveryCount",
        "routerd manage create --type address prefix=news distribution=multicast",
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
    check_utf8(operation, request["type"], request["name"], request["identity"], *request["arguments"])
    tool = import_module("routerd.cli.manage")  # late: it needs the engine
    tool.run(place, tool.Ask(operation.lower(), **request))


@main.command(
    short_help="Show a running router's log.",
    epilog=examples("routerd log --follow", "routerd log --level warning --limit 20 --bus amqp://router.example"),
)
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines until interrupted.")
@click.option("-n", "--limit", type=COUNT, default=50, show_default=True, help="Show at most this many old lines.")
@click.option("--module", metavar="NAME", help="Show the lines of this module, such as SERVER.")
@click.option("--level", type=click.Choice(LEVELS), default="trace", help="Show lines of this level and above.")
@AS_JSON_LINES
@asks
def log(place: Place, **options: Any) -> None:
    """Show the last log lines of a router's processes. The router keeps about a thousand of them in memory."""
    check_utf8(options["module"])
    tool = import_module("routerd.cli.log")  # late: it needs the engine
    tool.run(place, tool.Options(**options))


@main.command(
    short_help="Send messages to an address.",
    epilog=examples(
        "routerd send greetings hello world", "generate | routerd send readings - --bus amqps://router.example"
    ),
)
@click.argument("address")
@click.argument("bodies", nargs=-1)
@click.option("--count", type=COUNT, default=1, show_default=True, help="Send each message this many times.")
@click.option("--durable", is_flag=True, help="Mark the messages as durable.")
@click.option("--ttl", type=click.IntRange(1, MOST_TTL), help="Seconds for which the messages are of use.")
@click.option("--subject", metavar="TEXT", help="The messages' subject.")
@click.option("--property", "properties", metavar="NAME=VALUE", multiple=True, help="An application property.")
@click.option("--number", "numbers", metavar="NAME=VALUE", multiple=True, help="One that is a whole number.")
@AS_JSON
@asks
def send(
    place: Place,
    address: str,
    bodies: tuple[str, ...],
    properties: tuple[str, ...],
    numbers: tuple[str, ...],
    **options: Any,
) -> None:
    """Send messages to ADDRESS, a message for each of BODIES, one after the other; - is standard input, line by line.

    Without BODIES the command sends one empty message. Exit status 1: a message was not accepted.
    """
    goes_by_address(place)
    check_utf8(address, options["subject"], *bodies, *properties, *numbers)
    given = application_properties(properties, numbers)
    if not bodies:
        click.echo("no BODIES are given: the command sends an empty message (- sends standard input)", err=True)
    texts = (line for body in bodies or ("",) for line in (_lines() if body == "-" else [body]))
    tool = import_module("routerd.cli.messages")  # late: it needs the engine
    sys.exit(tool.send(place, address, tool.Sending(texts, properties=given, **options)) > 0)


def _lines() -> Iterator[str]:
    """Yield the lines of standard input."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.removesuffix(b"\n").decode()
        except UnicodeDecodeError:
            raise click.ClickException(
                f"standard input:{number}: this line is not UTF-8; nothing more is sent"
            ) from None


@main.command(
    short_help="Receive messages from an address.",
    epilog=examples("routerd receive greetings", "routerd receive greetings --count 1 --wait 10 --json"),
)
@click.argument("address")
@click.option("--count", type=COUNT, help="Receive this many messages; without it until interrupted.")
@click.option("--wait", type=SECONDS, help="How long to wait for the next message; without it for ever.")
@AS_JSON_LINES
@asks
def receive(place: Place, address: str, count: int | None, **options: Any) -> None:
    """Receive messages from ADDRESS, print their bodies and accept them. Exit status 1: fewer than --count came.

    At the end standard error says how many came.
    """
    goes_by_address(place)
    check_utf8(address)
    tool = import_module("routerd.cli.messages")  # late: it needs the engine
    sys.exit(tool.receive(place, address, tool.Receiving(count, **options)) < (count or 0))


@main.command(
    short_help="Measure round trips.", epilog=examples("routerd ping", "routerd ping --router B --count 100 --json")
)
@click.option("--count", type=COUNT, default=20, show_default=True, help="The number of round trips.")
@click.option("--interval", type=SECONDS, default=0.05, show_default=True, help="The pause between two of them.")
@AS_JSON
@asks
def ping(place: Place, **options: Any) -> None:
    """Measure how long a message takes through a router and back, and its outcome to its sender.

    With --router or --edge-router the command measures requests to that router's management agent.
    """
    import_module("routerd.cli.messages").ping(place, **options)


@main.command(
    short_help="Measure a router with simple clients.",
    epilog=examples("routerd bench", "routerd bench --senders 4 --receivers 4 --size 10000 --seconds 20"),
)
@click.argument("address", default="routerd.bench")
@click.option("--senders", type=COUNT, default=1, show_default=True, help="The number of sending clients.")
@click.option("--receivers", type=COUNT, default=1, show_default=True, help="The number of receiving clients.")
@click.option("--size", type=OCTETS, default=100, show_default=True, help="Octets of each message's body.")
@click.option("--seconds", type=SECONDS, default=5.0, show_default=True, help="How long the clients send.")
@AS_JSON
@asks
def bench(place: Place, as_json: bool, **options: Any) -> None:
    """Send messages to ADDRESS and receive them. The command prints rate, latency and the router's CPU per message.

    The clients are simple and slow: the rate is theirs, the CPU time is the router's, with all else that it does. With
    --router or --edge-router it is the CPU time of that router; the clients connect to the one at the URL all the same.
    """
    check_utf8(options["address"])
    tool = import_module("routerd.cli.bench")  # late: it needs the engine
    tool.run(place, tool.Load(**options), as_json)


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
