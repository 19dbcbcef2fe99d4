"""The cost of a scrape: CPU time of the exporter, without connections and with very many.

python -m bench.scrape
"""

import statistics
import urllib.request
from contextlib import ExitStack
from typing import Final, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from bench.build import build_wire
from bench.clients import Client, ClientSpec
from bench.processes import cpu_seconds, processes
from bench.queries import Crowd
from bench.run import raise_descriptor_limit
from bench.targets import ROUTERD, BenchError, Running, free_port, started

HTTP: Final = "listener {{\n    host: 127.0.0.1\n    port: {port}\n    http: yes\n}}\n"
PATHS: Final = ("/metrics", "/metrics?connections=1", "/status.json", "/history.json?span=hour")


class Cost(NamedTuple):
    """The cost of one path: CPU milliseconds of each request, and octets of the answer."""

    path: str
    spent: list[float]
    size: int


def asked(exporter: int, port: int, path: str, times: int) -> Cost:
    """Request a path so often. The result includes what the exporter does once a second by itself."""
    spent, size = [], 0
    for _ in range(times + 1):
        before = cpu_seconds(exporter)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            size = len(answer.read())
        spent.append((cpu_seconds(exporter) - before) * 1e3)
    return Cost(path, spent[1:], size)  # the first request fills caches


def costs(running: Running, port: int, times: int) -> list[Cost]:
    """Return the cost of every path now."""
    if running.process is None:
        raise BenchError("the target is not a router")
    exporter = processes(running.process.pid)["exporter"]
    return [asked(exporter, port, path, times) for path in PATHS]


@click.command(help=__doc__)
@click.option("--addresses", default=10_000, show_default=True, help="Links of one client, each to its own.")
@click.option("--connections", default=5_000, show_default=True, help="With a link each, to its own address.")
@click.option("--workers", default=2, show_default=True, help="Workers of the router.")
@click.option("--repeat", default=20, show_default=True, help="Scrapes of each kind.")
def main(*, addresses: int, connections: int, workers: int, repeat: int) -> None:
    """Measure; the exit status is 1 if something could not be measured."""
    raise_descriptor_limit()
    port = free_port()
    table = Table("addresses", "connections", "path", "CPU ms, median", "most", "octets")
    try:
        build_wire()
        with (
            started(ROUTERD, {"workerThreads": str(workers)}, sections=HTTP.format(port=port)) as running,
            ExitStack() as crowd,
        ):
            rows(table, "0", "0", costs(running, port, repeat))
            crowd.enter_context(Crowd(f"127.0.0.1:{running.port}", addresses))
            rows(table, f"{addresses:,}", "1", costs(running, port, repeat))
            spec = ClientSpec(mode="idle", port=running.port, address="bench.idle", links=connections, credit=10)
            crowd.enter_context(Client(spec, "wire")).await_ready()
            rows(table, f"{addresses + connections:,}", f"{connections + 1:,}", costs(running, port, repeat))
    except BenchError as error:
        raise click.ClickException(str(error)) from error
    Console(width=120).print(table)


def rows(table: Table, addresses: str, connections: str, found: list[Cost]) -> None:
    """A line for each path."""
    for one in found:
        middle = f"{statistics.median(one.spent):.1f}"
        table.add_row(addresses, connections, one.path, middle, f"{max(one.spent):.1f}", f"{one.size:,}")


if __name__ == "__main__":
    main()
