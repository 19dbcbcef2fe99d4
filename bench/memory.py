"""The memory of a router for each connection, link and address, of which a table shows KB.

python -m bench.memory
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from bench.build import build_wire
from bench.clients import Client, ClientSpec
from bench.queries import Crowd
from bench.run import raise_descriptor_limit
from bench.targets import ROUTERD, BenchError, Running, started

SETTLE_S: Final = 2.0  # a router is not idle yet right after a start or an attach

Crowding = Callable[[Running, int], AbstractContextManager[object]]


def connections(running: Running, count: int) -> AbstractContextManager[object]:
    """Open connections with a receiver each, all on addresses of their own."""
    spec = ClientSpec(mode="idle", port=running.port, address="bench.idle", links=count, credit=10)
    stack = ExitStack()
    stack.enter_context(Client(spec, "wire")).await_ready()
    return stack


def links(running: Running, count: int) -> AbstractContextManager[object]:
    """Attach receivers of one address on one connection."""
    return Crowd(f"127.0.0.1:{running.port}", count, addresses=1)


def addresses(running: Running, count: int) -> AbstractContextManager[object]:
    """Attach receivers of as many addresses on one connection."""
    return Crowd(f"127.0.0.1:{running.port}", count)


WHAT: Final[dict[str, tuple[str, Crowding]]] = {
    "connections": ("a connection with a link and an address", connections),
    "links": ("a link", links),
    "addresses": ("a link and an address", addresses),
}


def grown(crowding: Crowding, count: int, workers: int) -> dict[str, float]:
    """Return the KB for each of so many by role: a process's memory with them less that without."""
    with started(ROUTERD, {"workerThreads": str(workers)}) as running:
        time.sleep(SETTLE_S)
        before = running.memory()
        with crowding(running, count):
            time.sleep(SETTLE_S)
            after = running.memory()
    return {role: (after[role] - before[role]) / count / 1024 for role in after if role in before}


@click.command(help=__doc__)
@click.option("--count", default=5_000, show_default=True, help="Connections, links or addresses.")
@click.option("--workers", default=2, show_default=True, help="Workers of the router.")
def main(*, count: int, workers: int) -> None:
    """Measure; the exit status is 1 if something could not be measured."""
    raise_descriptor_limit()
    table = Table("for each", "KB", "of it the core", "the workers")
    try:
        build_wire()
        for title, crowding in WHAT.values():
            found = grown(crowding, count, workers)
            of_workers = sum(size for role, size in found.items() if role.startswith("worker"))
            table.add_row(title, *(f"{size:.1f}" for size in (sum(found.values()), found.get("core", 0), of_workers)))
    except BenchError as error:
        raise click.ClickException(str(error)) from error
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
