"""``python -m bench.annotations``: the cost of router annotations for a worker on each message, in ns.

It compiles the worker's own C files alone, for a message in one block, without engine and sockets. ``read`` is the
whole scan of a message, ``write`` the beginning of the forwarded one, without the engine's copy of its body. The cost
of annotations for a hop is the sum of both, less that of a message without annotations.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from bench.targets import ROOT, BenchError

FORMS: Final = {"none": 0, "map": 1, "section": 2, "skupper": 3}  # enum content_annotations
ROUTERS: Final = (1, 3, 10)
FLAGS: Final = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wno-unused-function")


class Cost(msgspec.Struct, frozen=True):
    """The cost of one form on a message that has passed some routers; times are in ns per message."""

    form: str
    routers: int
    octets: int
    read: float
    write: float


def measure(rounds: int, routers: Sequence[int] = ROUTERS) -> list[Cost]:
    """Measure every form, the message without annotations first. Raises ``BenchError`` without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchError("no C compiler (cc) is installed; install one: apt install gcc")
    cases = [("none", 0), *((form, n) for form in list(FORMS)[1:] for n in routers)]
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "annotations"
        include = [f"-I{ROOT}"]
        source = str(ROOT / "bench" / "annotations.c")
        subprocess.run(  # noqa: S603  every word is ours
            [compiler, *FLAGS, *include, source, "-o", str(program)], check=True
        )
        arguments = [word for form, n in cases for word in (str(FORMS[form]), str(n))]
        done = subprocess.run(  # noqa: S603  the same
            [str(program), str(rounds), *arguments], check=True, capture_output=True, text=True
        )
    figures = [line.split() for line in done.stdout.splitlines()]
    return [
        Cost(form, n, int(octets), float(read), float(write))
        for (form, n), (_, _, octets, read, write) in zip(cases, figures, strict=True)
    ]


@click.command(help=__doc__)
@click.option("--rounds", default=1_000_000, show_default=True, help="messages of each kind")
def main(rounds: int) -> None:
    costs = measure(rounds)
    plain = costs[0].read + costs[0].write
    click.echo(f"{'form':8} {'routers':>7} {'octets':>6} {'read':>7} {'write':>7} {'a hop adds':>10}")
    for cost in costs:
        added = cost.read + cost.write - plain
        click.echo(f"{cost.form:8} {cost.routers:7} {cost.octets:6} {cost.read:7.1f} {cost.write:7.1f} {added:10.1f}")


if __name__ == "__main__":
    main()
