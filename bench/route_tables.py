"""Route tables alone: the cost of a lookup, and the time to parse, build and swap a table.

    python -m bench.route_tables [ENTRIES...]

Lookups are timed in CPU time over random keys of the whole table, so a large one misses the caches; the slot of the
third next key is fetched ahead, as the forwarder does. "settle" is the longest step of the core's thread while one
table replaces another. The first lines are the whole cost for a message: a scan without its key, with it, and with
the lookup, batch by batch as in a router.
"""

import random
import shutil
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from bench.core_alone import SCENARIOS, Bed
from bench.targets import ROOT, BenchError
from core.forwarder.forward import Routes, RouteTable
from core.rmr.active.compiled import CompiledTable, compile_table
from core.rmr.tables.parser import Parser
from core.rmr.tables.table import Table

SIZES: Final = (10, 10_000, 1_000_000)
LOOKUPS: Final = 1 << 20
ROUNDS: Final = 3
PIECE: Final = 1 << 14


def text(entries: int) -> str:
    """Return a table with two groups for each entry, of a few hundred endpoints."""
    rows = (f"mse|{1000 + at % 1000}|{at // 1000}|app{at % 300}:1,app{at % 299}:1\n" for at in range(entries))
    return "".join(["newrt|start|bench\n", *rows, f"newrt|end|{entries}\n"])


def parsed(records: str) -> Table:
    """Parse a table in pieces, as the core's intake does."""
    parser = Parser()
    for at in range(0, len(records), PIECE):
        for result in parser.feed(records[at : at + PIECE]):
            assert isinstance(result, Table), result
            return result
    raise ValueError("the table has no end")


def lookup_ns(table: RouteTable, entries: int, seed: int = 1) -> float:
    """Return the CPU time of a lookup in ns, the least of some rounds."""
    rows = random.Random(seed).choices(range(entries), k=LOOKUPS)  # noqa: S311 - keys, no secrets
    types, subscriptions = (array("i", (1000 + at % 1000 for at in rows)), array("i", (at // 1000 for at in rows)))
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time_ns()
        assert table.probe(types, subscriptions, 1) == LOOKUPS
        best = min(best, (time.process_time_ns() - began) / LOOKUPS)
    return best


def settle_ms(old: CompiledTable, new: CompiledTable) -> float:
    """Return the longest step in which one table replaces another, in ms of CPU time."""
    core = Bed(SCENARIOS[0]).forwarder
    routes = Routes(core, core.add_address(1))
    routes.use_table(old.native, array("I"))
    assert routes.settle()
    longest, began = 0, time.thread_time_ns()
    routes.use_table(new.native, array("I", range(len(old.endpoints))))
    done = False
    while not done:
        longest = max(longest, time.thread_time_ns() - began)
        began = time.thread_time_ns()
        done = routes.settle()
    longest = max(longest, time.thread_time_ns() - began)
    routes.close()
    return longest / 1e6


def measure(sizes: list[int]) -> Iterator[str]:
    """Yield a line for each size."""
    yield f"{'entries':>9}  {'lookup':>8}  {'parse':>9}  {'build':>9}  {'settle':>8}"
    for entries in sizes:
        records = text(entries)
        began = time.process_time()
        value = parsed(records)
        between = time.process_time()
        built = compile_table(value, 1)
        ended = time.process_time()
        other = compile_table(value, 1)
        yield (
            f"{entries:>9}  {lookup_ns(built.native, entries):5.0f} ns  {(between - began) * 1e3:6.1f} ms"
            f"  {(ended - between) * 1e3:6.1f} ms  {settle_ms(built, other):5.2f} ms"
        )


def together_ns(sizes: list[int]) -> Iterator[str]:
    """Yield a line for each size: a table's CPU time per message, measured by one program (rmr_key.c)."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchError("no C compiler (cc) is installed; install one: apt install gcc")
    yield f"{'entries':>9}  {'scan':>8}  {'with key':>8}  {'and lookup':>10}"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "rmr_key")
        include = [f"-I{ROOT}"]
        flags = ["-std=gnu11", "-O2", *include]
        source = str(ROOT / "bench" / "rmr_key.c")
        subprocess.run([compiler, *flags, source, "-o", str(program)], check=True)  # noqa: S603 - ours
        for entries in sizes:
            best = [float("inf")] * 3
            for _ in range(ROUNDS):
                done = subprocess.run(  # noqa: S603 - ours
                    [str(program), str(LOOKUPS), str(entries)], check=True, capture_output=True, text=True
                )
                best = list(map(min, best, map(float, done.stdout.split())))
            scan, keyed, both = best
            yield f"{entries:>9}  {scan:5.0f} ns  {keyed:5.0f} ns  {both:7.0f} ns"


def main() -> None:
    sizes = [int(one) for one in sys.argv[1:]] or list(SIZES)
    for line in chain(together_ns(sizes), measure(sizes)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
