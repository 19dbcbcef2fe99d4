"""``python -m bench.scaling``: what more workers bring on a machine with many CPUs, pinned and not.

For each number of workers there is a router, and so many pairs of hand-made clients for each of its workers that all
are busy. Routers stand idle while another one is measured; they take turns. Where processes are pinned, the core has
the first CPU, workers have the next ones, and clients the rest; otherwise the kernel chooses.

    python -m bench.scaling --workers 1,2,4,8,14
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import click
import msgspec

from bench.build import build_wire
from bench.report import medians
from bench.results import Run
from bench.run import console, raise_descriptor_limit
from bench.scenarios import PingPong, Transfer
from bench.targets import ROUTERD, BenchError, Running, started

MICROSECONDS = 1e6
HEADINGS = (
    "workers",
    "pinned",
    "messages/s",
    "router µs/msg",
    "core µs/msg",
    "core busy",
    "busiest worker",
    "clients µs/msg",
    "p50/p99/p99.9 µs",
    "one in flight p50/p99 µs",
)


class Layout(msgspec.Struct, frozen=True):
    """How many workers there are, and whether each process has a CPU."""

    workers: int
    pinned: bool

    def settings(self, cpus: Sequence[int]) -> dict[str, str]:
        """Return the attributes of the router entity on a machine with these CPUs."""
        found = {"workerThreads": str(self.workers)}
        if self.pinned:
            mine = ",".join(str(cpu) for cpu in cpus[1 : 1 + self.workers])
            found |= {"coreCpu": str(cpus[0]), "workerCpus": mine}
        return found

    def clients(self, cpus: Sequence[int]) -> set[int]:
        """Return the CPUs for clients: those that no process of the router has, and all if there is none left."""
        return set(cpus[1 + self.workers :] if self.pinned else cpus) or set(cpus)

    def fits(self, cpus: Sequence[int]) -> bool:
        """Whether each of its processes can have a CPU."""
        return not self.pinned or self.workers < len(cpus)


def row(layout: Layout, runs: Sequence[Run], pings: Sequence[Run]) -> list[str]:
    """Return a line of the table. A process is as busy as its CPU time per message times the messages of a second."""
    figures, alone = medians(runs), medians(pings)

    def busy(role: str) -> str:
        return f"{figures[role] * figures['rate'] / MICROSECONDS:.0%}"

    return [
        str(layout.workers),
        "yes" if layout.pinned else "no",
        f"{figures['rate']:,.0f}",
        f"{figures['router_cpu']:.2f}",
        f"{figures['cpu:core']:.3f}",
        busy("cpu:core"),
        busy("cpu:worker"),
        f"{figures['clients_cpu']:.2f}",
        f"{figures['p50']:.0f} / {figures['p99']:.0f} / {figures['p999']:.0f}",
        f"{alone['p50']:.0f} / {alone['p99']:.0f}",
    ]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return the table."""
    lines = [HEADINGS, ["---"] * len(HEADINGS), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def measure(
    layouts: Sequence[Layout], cpus: Sequence[int], *, size: int, count: int, pairs: int, repeat: int
) -> list[list[str]]:
    """Start a router for each layout, and return their lines of the table."""
    runs: dict[Layout, list[Run]] = {layout: [] for layout in layouts}
    pings: dict[Layout, list[Run]] = {layout: [] for layout in layouts}
    with ExitStack() as stack, ThreadPoolExecutor(len(layouts)) as threads:

        def start(layout: Layout) -> Running:
            return stack.enter_context(started(ROUTERD, layout.settings(cpus)))

        routers = dict(zip(layouts, threads.map(start, layouts), strict=True))
        stack.callback(os.sched_setaffinity, 0, cpus)
        for turn in range(repeat):
            for layout in reversed(layouts) if turn % 2 else layouts:
                console.print(f"[dim]{layout.workers} workers{', pinned' * layout.pinned} …[/dim]")
                os.sched_setaffinity(0, layout.clients(cpus))
                load = Transfer(count=count, size=size, pairs=pairs * layout.workers)
                runs[layout].append(load.run(routers[layout], "wire", 1.0))
                pings[layout].append(PingPong(count=5_000).run(routers[layout], "wire", 1.0))
    return [row(layout, runs[layout], pings[layout]) for layout in layouts]


def numbers(context: click.Context, option: click.Parameter, text: str) -> list[int]:
    """Return the numbers of workers that the option names."""
    del context, option
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise click.BadParameter(f"expected numbers of workers with commas between them, not {text!r}")
    return found


@click.command(help=__doc__)
@click.option("--workers", default="1,2,4,8", show_default=True, callback=numbers, help="Numbers of workers.")
@click.option("--size", default=100, show_default=True, help="Octets of a message.")
@click.option("--count", default=300_000, show_default=True, help="Messages of each pair.")
@click.option("--pairs", default=2, show_default=True, help="Pairs of clients for each worker.")
@click.option("--repeat", default=3, show_default=True, help="Repetitions; the table shows their median.")
def main(*, workers: list[int], size: int, count: int, pairs: int, repeat: int) -> None:
    """Print the table; the exit status is 1 if something could not be measured."""
    raise_descriptor_limit()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no router stays behind
    cpus = sorted(os.sched_getaffinity(0))
    every = [Layout(number, pinned) for pinned in (False, True) for number in workers]
    layouts = [layout for layout in every if layout.fits(cpus)]
    if left_out := [str(layout.workers) for layout in every if layout not in layouts]:
        console.print(f"not pinned, for want of CPUs: {', '.join(left_out)} workers", style="yellow")
    try:
        build_wire()
        print(markdown(measure(layouts, cpus, size=size, count=count, pairs=pairs, repeat=repeat)))
    except BenchError as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
