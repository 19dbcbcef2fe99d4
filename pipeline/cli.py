"""`routerd pipeline`: the jobs at the command line. PySpark is imported when a command needs it."""

from collections.abc import Callable
from contextlib import suppress
from datetime import date
from functools import wraps
from pathlib import Path
from typing import Any

import click

from pipeline.errors import PipelineError

INSTALL = "what the pipeline needs is not installed; docs/pipeline.md says how"


@click.group()
def pipeline() -> None:
    """The flow log: generate one, analyse it on Spark, plan from it."""


def _plainly(command: Callable[..., None]) -> Callable[..., None]:
    """Errors that the user can do something about are one sentence and status 1."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except PipelineError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise click.ClickException(f"{where}{error.strerror or error}") from error
        except ModuleNotFoundError as error:
            if error.name and error.name.split(".")[0] in ("pyspark", "pyarrow", "numpy"):
                raise click.ClickException(f"{error.name} is missing: {INSTALL}") from error
            raise
        except Exception as error:
            if type(error).__module__.split(".")[0] in ("py4j", "pyspark"):
                raise click.ClickException(f"Spark failed: {_cause(error)}") from error
            raise

    return run


def _cause(error: Exception) -> str:
    """What is behind an error of Spark: the innermost cause that its text names."""
    lines = str(error).splitlines() or [type(error).__name__]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines)[-1 if causes else 0].strip()


def _on_spark(command: Callable[..., None]) -> Callable[..., None]:
    """Options of commands that start Spark."""
    for option in (
        click.option("--master", metavar="URL", help="A Spark cluster; by default all CPUs of this machine."),
        click.option("--memory", default="2g", show_default=True, help="Java's, on this machine."),
        click.option(
            "--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark; again for each further one."
        ),
    ):
        command = option(command)
    return command


def _settings(memory: str, conf: tuple[str, ...]) -> dict[str, str]:
    settings = {"spark.driver.memory": memory}
    for one in conf:
        name, equals, value = one.partition("=")
        if not equals:
            raise PipelineError(f"--conf {one} is not NAME=VALUE")
        settings[name] = value
    return settings


@pipeline.command(short_help="Write a flow log to try.")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--records", default=200_000, show_default=True, type=click.IntRange(1000), help="About so many.")
@click.option("--seed", default=1, show_default=True, help="Equal seeds give equal logs.")
@click.option("--days", default=2, show_default=True, type=click.IntRange(1, 366), help="Length of the log.")
@click.option("--start", default="2026-01-05", show_default=True, help="First day, YYYY-MM-DD.")
@click.option("--routers", default=4, show_default=True, type=click.IntRange(3, 64), help="In a ring.")
@click.option("--workers", default=2, show_default=True, type=click.IntRange(1, 64), help="Of each router.")
@click.option("--no-faults", is_flag=True, help="Nothing is wrong in it.")
@_plainly
def generate(directory: Path, no_faults: bool, start: str, **numbers: int) -> None:
    """Write a flow log into DIRECTORY, with faults whose true answers stand in its _truth.json."""
    from pipeline.generate.scenario import FAULTS, Scenario  # noqa: PLC0415  numpy is optional
    from pipeline.generate.write import generate as write  # noqa: PLC0415  the same

    try:
        first = date.fromisoformat(start)
    except ValueError as error:
        raise PipelineError(f"--start {start} is not a day, YYYY-MM-DD") from error
    truth = write(Scenario(**numbers, start=first, faults=() if no_faults else FAULTS), directory)
    click.echo(f"{directory}: {truth.records} records in {truth.files} files, {len(truth.faults)} faults")


@pipeline.command(short_help="Compute every table.")
@click.option("--input", "source", required=True, metavar="DIR", help="The log: the directory of a flowLog.")
@click.option("--output", required=True, metavar="DIR", help="Where the tables go.")
@click.option("--worker-us", default=1.6, show_default=True, help="CPU µs of a message in a worker, by make bench.")
@click.option("--core-us", default=0.25, show_default=True, help="CPU µs of a message in the core.")
@_on_spark
@_plainly
def run(
    source: str, output: str, worker_us: float, core_us: float, master: str | None, memory: str, conf: tuple[str, ...]
) -> None:
    """Compute every table: traffic, paths, talkers, findings, capacity, and what a plan needs."""
    from pipeline import batch  # noqa: PLC0415  pyspark is optional
    from pipeline.capacity import Costs  # noqa: PLC0415  the same
    from pipeline.holding import held, places_for  # noqa: PLC0415  the same
    from pipeline.output import RESULTS, claimed  # noqa: PLC0415  the same
    from pipeline.session import session  # noqa: PLC0415  the same

    settings = _settings(memory, conf)
    with held(source) as (found, kept), claimed(output, RESULTS, source) as place:
        for one in found.skipped:
            click.echo(str(one), err=True)
        with session(master, settings) as spark:
            try:
                made = batch.run(
                    spark, found, place, Costs(worker_us, core_us), lambda name: click.echo(f"  {name}"),
                    places_for(spark, kept),
                )  # fmt: skip
            except Exception as error:
                raise kept.failed(found, error) from error
        said = made.generation.summary()
    click.echo(
        f"{output}: {said['records']} records of {said['files']} files, for {said['messages']} messages; "
        f"{said['lost']} records lost, {len(found.skipped)} files left out, {said['copies']} copies"
    )


@pipeline.command(short_help="Keep the traffic matrix of a growing log.")
@click.option("--input", "source", required=True, metavar="DIR", help="The log: the directory of a flowLog.")
@click.option("--output", required=True, metavar="DIR", help="Where the sums go; of one stream only.")
@click.option("--once", is_flag=True, help="Take what is there and end.")
@click.option(
    "--every", "every_s", default=5.0, show_default=True, type=click.FloatRange(0.1), help="Seconds; of a batch."
)
@click.option("--files", default=500, show_default=True, type=click.IntRange(1), help="In a batch, at most.")
@click.option(
    "--delay", "delay_s", default=60.0, show_default=True, type=click.FloatRange(0), help="Seconds; of records."
)
@_on_spark
@_plainly
def stream(
    source: str, output: str, master: str | None, memory: str, conf: tuple[str, ...], **pace: Any,
) -> None:  # fmt: skip
    """Keep the traffic matrix of a growing log, until interrupted; goes on where it was stopped or killed."""
    from pipeline import stream as job  # noqa: PLC0415  pyspark is optional
    from pipeline.output import STREAM, claimed  # noqa: PLC0415  the same
    from pipeline.parts import prepare  # noqa: PLC0415  the same
    from pipeline.session import session  # noqa: PLC0415  the same

    settings = _settings(memory, conf)
    job.raw_of(source)  # a wrong directory is said before Spark starts
    with claimed(output, STREAM, source) as place:
        prepare(place)  # as here
        with session(master, settings) as spark, suppress(KeyboardInterrupt):
            job.run(spark, source, place, job.Pace(**pace), click.echo)
            return
    click.echo(f"{output}: stopped; the next start goes on from here")


@pipeline.command(short_help="Write one page with tables and plots.")
@click.option("--results", "output", required=True, metavar="DIR", help="The --output of a run.")
@_on_spark
@_plainly
def report(output: str, master: str | None, memory: str, conf: tuple[str, ...]) -> None:
    """Write report.html: one page with tables and plots of the results of a run."""
    from pipeline.generations import read  # noqa: PLC0415  pyarrow is optional
    from pipeline.report import report as make  # noqa: PLC0415  so is pyspark
    from pipeline.session import session  # noqa: PLC0415  the same
    from pipeline.storage import Results  # noqa: PLC0415  the same

    settings = _settings(memory, conf)
    with read(output) as found, session(master, settings) as spark:
        click.echo(make(Results(spark, found)))


@pipeline.command(short_help="Write a route table that evens out the load.")
@click.option("--results", "output", required=True, metavar="DIR", help="The --output of a run.")
@click.option("--add", multiple=True, metavar="HOST:PORT", help="A new endpoint that may own managed entities.")
@click.option("--remove", multiple=True, metavar="HOST:PORT", help="One that is to own none, and get nothing.")
@click.option("--slack", default=0.1, show_default=True, type=click.FloatRange(0), help="Above the mean is even.")
@_on_spark
@_plainly
def plan(
    output: str, add: tuple[str, ...], remove: tuple[str, ...], slack: float, master: str | None, memory: str,
    conf: tuple[str, ...],
) -> None:  # fmt: skip
    """Write plan.rt: a route table and MEID map that even out the observed load with few moves."""
    from pipeline import batch  # noqa: PLC0415  pyspark is optional
    from pipeline.generations import read  # noqa: PLC0415  the same
    from pipeline.plan import Wishes  # noqa: PLC0415  the same
    from pipeline.session import session  # noqa: PLC0415  the same
    from pipeline.storage import Results  # noqa: PLC0415  the same

    settings = _settings(memory, conf)
    with read(output) as found, session(master, settings) as spark:
        made, where = batch.plan(Results(spark, found), Wishes(add, remove, slack))
    for odd in made.odd:
        click.echo(odd, err=True)
    before, after = made.endpoint_loads(made.before), made.endpoint_loads(made.owners)
    for endpoint in sorted(before.keys() | after.keys()):
        click.echo(f"  {endpoint}: {before.get(endpoint, 0)} -> {after.get(endpoint, 0)} messages")
    click.echo(f"{where}: {len(made.entries)} entries, {len(made.owners)} managed entities, {len(made.moves)} move")


def main() -> None:
    """For spark-submit, and `python -m pipeline`."""
    pipeline(prog_name="routerd pipeline")
