"""``python -m bench.run``: measures routerd, and what it is compared with, on this machine.

Everything runs on the loopback interface, with bounded counts, and is stopped at the end. The method is in
docs/benchmark.md.
"""

from __future__ import annotations

import os
import platform
import resource
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import click
import msgspec
from rich.console import Console

from bench.build import build_wire
from bench.processes import ProcessGoneError
from bench.report import markdown_table, rich_table
from bench.results import Outcome, Report, Run
from bench.scenarios import SCENARIOS, Connections, Scenario
from bench.targets import BASELINE, DIRECT, ROUTERD, BenchError, Running, Target, installed, parse_peer, started
from routerd.cli.client import ClientError

QUICK_SCALE = 0.1
FILE_WIDTH = 180  # of the table where no terminal gives one
console = Console(stderr=True)


def plan(scenarios: Sequence[Scenario], targets: Sequence[Target]) -> Iterator[tuple[Scenario, list[Target]]]:
    """Return the targets of each scenario: routerd always, comparisons if it asks for them, peers if they can do it."""
    comparisons = {DIRECT.name, BASELINE.name}
    for scenario in scenarios:
        peers = set() if scenario.alone else {one.name for one in targets} - comparisons
        wanted = {ROUTERD.name, *scenario.also, *peers}
        if chosen := [target for target in targets if target.name in wanted]:
            yield scenario, chosen


def measure(
    scenario: Scenario,
    targets: Sequence[Target],
    *,
    client: str,
    repeat: int,
    scale: float,
    settings: Mapping[str, str],
) -> list[Outcome]:
    """Start the targets and let them take turns, so that each meets the same changes of the machine.

    An error ends a target's turns and takes their place; the others go on.
    """
    runs: dict[str, list[Run]] = {target.name: [] for target in targets}
    errors: dict[str, str] = {}
    with ExitStack() as stack:
        running: dict[str, Running] = {}
        for target in targets:
            with kept(errors, target.name):
                router = started(target, settings, scenario.routers, rmr=scenario.rmr, tls=scenario.tls)
                running[target.name] = stack.enter_context(router)
        for turn in range(1 if isinstance(scenario.measurement, Connections) else repeat):
            for target in reversed(targets) if turn % 2 else targets:
                if target.name not in errors:
                    share = scenario.python_scale if target == BASELINE else 1.0
                    with kept(errors, target.name):
                        runs[target.name].append(scenario.measurement.run(running[target.name], client, scale * share))
    return [
        Outcome(scenario=scenario.name, target=name, client=client, runs=done, error=errors.get(name))
        for name, done in runs.items()
    ]


@contextmanager
def kept(errors: dict[str, str], name: str) -> Iterator[None]:
    """Keep what goes wrong in the context as the error of that name."""
    try:
        yield
    except (BenchError, ProcessGoneError, ClientError) as problem:
        errors[name] = str(problem)
    except Exception as problem:  # a mistake of the benchmark, or what a router did that nobody has thought of
        console.print_exception()
        errors[name] = f"{type(problem).__name__}: {problem}"


def parse_attributes(texts: Sequence[str]) -> dict[str, str]:
    """Return ``NAME=VALUE`` pairs as a dictionary."""
    pairs = [text.partition("=")[::2] for text in texts]
    for text, (name, value) in zip(texts, pairs, strict=True):
        if not (name and value):
            raise click.ClickException(f"--attribute {text!r}: expected NAME=VALUE")
    return dict(pairs)


def raise_descriptor_limit() -> None:
    """Raise the limit of open files, which routers inherit, for thousands of connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def chosen(names: Sequence[str]) -> list[Scenario]:
    """Return scenarios by name; without names all."""
    return [scenario for scenario in SCENARIOS if not names or scenario.name in names]


@click.command(help=__doc__)
@click.option(
    "--scenario", "names", multiple=True, type=click.Choice([one.name for one in SCENARIOS]), help="Only this one."
)
@click.option("--quick", is_flag=True, help="Send a tenth of the messages, once, to see that it works.")
@click.option("--repeat", default=3, show_default=True, help="Repetitions; the table shows their median.")
@click.option("--workers", default=2, show_default=True, help="Worker processes of routerd, threads of qdrouterd.")
@click.option(
    "--wire", is_flag=True, help="Use the hand-made client, which leaves the CPUs to the router, wherever it will do."
)
@click.option("--peer", "peers", multiple=True, metavar="NAME=COMMAND", help="A further router to measure.")
@click.option(
    "--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="Set in the router entity of {config}."
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Only this one: routerd, direct, python, qdrouterd, skrouterd, or a peer.",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="File for every run.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def main(
    *,
    names: tuple[str, ...],
    quick: bool,
    repeat: int,
    workers: int,
    wire: bool,
    peers: tuple[str, ...],
    attributes: tuple[str, ...],
    only: tuple[str, ...],
    json_file: Path | None,
    markdown: bool,
) -> None:
    """Measure; the exit status is 1 if something could not be measured. An interrupt ends it with the table so far."""
    raise_descriptor_limit()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that no router stays behind
    try:
        build_wire()
        found = [ROUTERD, DIRECT, BASELINE, *installed(), *(parse_peer(text) for text in peers)]
    except BenchError as error:
        raise click.ClickException(str(error)) from error
    targets = list({target.name: target for target in found}.values())  # the last of a name
    unknown = set(only) - {target.name for target in targets}
    if unknown:
        raise click.ClickException(f"--only {', '.join(sorted(unknown))}: there is no such router here")
    targets = [target for target in targets if not only or target.name in only]
    settings = {"workerThreads": str(workers)} | parse_attributes(attributes)
    steps = [
        (scenario, together)
        for scenario, wanted in plan(chosen(names), targets)
        for together in ([[one] for one in wanted] if scenario.memory else [wanted])
    ]
    outcomes: list[Outcome] = []
    done = 0
    with suppress(KeyboardInterrupt):
        for scenario, together in steps:
            console.print(f"[dim]{scenario.title}: {', '.join(one.name for one in together)} …[/dim]")
            outcomes += measure(
                scenario,
                together,
                client=scenario.client or ("wire" if wire else "proton"),
                repeat=1 if quick else repeat,
                scale=QUICK_SCALE if quick else 1.0,
                settings=settings,
            )
            done += 1
    if done < len(steps):
        console.print(f"interrupted; {len(steps) - done} of {len(steps)} steps are missing", style="red")
    for outcome in outcomes:
        if outcome.error is not None:
            console.print(
                f"{outcome.scenario}, {outcome.target}: {outcome.error}", style="red", markup=False, soft_wrap=True
            )
    show(outcomes, markdown=markdown, json_file=json_file)
    sys.exit(1 if done < len(steps) or any(outcome.error for outcome in outcomes) else 0)


def show(outcomes: Sequence[Outcome], *, markdown: bool, json_file: Path | None) -> None:
    """Print the table and write the file."""
    command = shlex.join(["python", "-m", "bench.run", *sys.argv[1:]])
    cpus = len(os.sched_getaffinity(0))
    if markdown:
        click.echo(markdown_table(outcomes))
    else:
        out = Console() if sys.stdout.isatty() else Console(width=FILE_WIDTH)
        out.print(rich_table(outcomes, f"{command}: {cpus} CPUs, {platform.machine()}, medians"))
    if json_file is None:
        return
    report = Report(
        command=command, cpus=cpus, kernel=platform.release(), python=platform.python_version(), outcomes=list(outcomes)
    )
    json_file.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")


if __name__ == "__main__":
    main()
