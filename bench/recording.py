"""The cost of the flow log, and whether it keeps up: two routers, one with a flow log, take turns.

    python -m bench.recording

Each pair is one run without and one with a flow log. The ratio compares the CPU time per message of all processes but
the recorder, whose own is next to it. While the recorder is behind, a record stands for several deliveries: those
without a record of their own are thinned. Records without room are dropped.
"""

import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from bench.build import build_wire
from bench.results import Run
from bench.run import raise_descriptor_limit
from bench.scenarios import Transfer
from bench.targets import ROUTERD, BenchError, Running, started
from shm.memory.segment import attach, segment_prefix
from shm.statistics.stats import COUNTERS

LOG: Final = "flowLog {{\n    directory: {directory}\n    sampling: {sampling}\n    rollAge: 2\n}}\n"
ROUTER: Final = "bench"  # its id
COUNTED: Final = ("records", "thinned", "dropped")


class Pair(NamedTuple):
    """A run without and one with a flow log, and what the core has counted meanwhile."""

    off: Run
    on: Run
    counted: Mapping[str, int]

    @property
    def ratio(self) -> float:
        """The CPU time of a message with the flow log divided by that without it, both without the recorder's."""
        return without_recorder(self.on.router_cpu) / without_recorder(self.off.router_cpu)


def without_recorder(cpu: Mapping[str, float]) -> float:
    """Return the CPU time of a message in all other processes, in µs."""
    return sum(spent for role, spent in cpu.items() if role != "recorder")


def counted(running: Running) -> dict[str, int]:
    """Return records made so far, deliveries represented by others, and records without room."""
    if running.process is None:
        raise BenchError("the target is not a router")
    with attach(segment_prefix(ROUTER, running.process.pid)) as segments:
        page = segments.core_stats()
        found = {name: page.get(COUNTERS[f"flow_{name}"].place) for name in COUNTED}
        del page
    return found


def pair(measured: Transfer, off: Running, on: Running, *, kind: str, turned: bool) -> Pair:
    """Return one run of each; ``turned`` puts the one with the flow log first."""
    before = counted(on)
    runs = [measured.run(one, kind, 1.0) for one in ((on, off) if turned else (off, on))]
    after = counted(on)
    first, second = reversed(runs) if turned else runs
    return Pair(first, second, {name: after[name] - before[name] for name in COUNTED})


@click.command(help=__doc__)
@click.option("--count", default=600_000, show_default=True, help="Messages of 100 B in each run.")
@click.option("--repeat", default=5, show_default=True, help="Pairs of runs.")
@click.option("--senders", default=1, show_default=True, help="Senders, each to a receiver of its own.")
@click.option("--presettled", is_flag=True, help="Send messages settled.")
@click.option("--sampling", default=1, show_default=True, help="Record one of so many deliveries.")
@click.option("--workers", default=2, show_default=True, help="Workers of each router.")
@click.option("--wire", is_flag=True, help="Use the hand-made client, which leaves the CPUs to the router.")
def main(*, count: int, repeat: int, senders: int, presettled: bool, sampling: int, workers: int, wire: bool) -> None:
    """Measure; the exit status is 1 if a measurement failed."""
    raise_descriptor_limit()
    measured = Transfer(count=count // senders, pairs=senders, presettled=presettled)
    settings = {"workerThreads": str(workers)}
    with tempfile.TemporaryDirectory(prefix="routerd-bench-") as folder:
        log = LOG.format(directory=Path(folder, "flows"), sampling=sampling)
        try:
            build_wire()
            with started(ROUTERD, settings) as off, started(ROUTERD, settings, sections=log) as on:
                kind = "wire" if wire else "proton"
                pairs = [pair(measured, off, on, kind=kind, turned=bool(number % 2)) for number in range(repeat)]
        except BenchError as error:
            raise click.ClickException(str(error)) from error
    Console(width=140).print(shown(pairs))


def shown(pairs: list[Pair]) -> Table:
    """Return a table with a line for each pair, and the median."""
    table = Table("", "messages/s off", "on", "µs/msg off", "on", "ratio", "recorder µs", *COUNTED)
    for number, one in enumerate(pairs, 1):
        table.add_row(
            str(number),
            *(f"{run.rate or 0:,.0f}" for run in (one.off, one.on)),
            *(f"{without_recorder(run.router_cpu):.3f}" for run in (one.off, one.on)),
            f"{one.ratio:.3f}",
            f"{one.on.router_cpu.get('recorder', 0):.2f}",
            *(f"{one.counted[name]:,}" for name in COUNTED),
        )
    off = [without_recorder(one.off.router_cpu) for one in pairs]
    on = [without_recorder(one.on.router_cpu) for one in pairs]
    medians = map(statistics.median, (off, on, [one.ratio for one in pairs]))
    sums = (f"{sum(one.counted[name] for one in pairs):,} in all" for name in COUNTED)
    table.add_row("median", "", "", *(f"{median:.3f}" for median in medians), "", *sums)
    return table


if __name__ == "__main__":
    main()
