"""`routerd pipeline`: the commands and their options. PySpark is imported when a command needs it."""

import math
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, date, datetime
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from pipeline.errors import UNUSABLE, PipelineError

_option = partial(click.option, show_default=True)
INSTALL = "docs/pipeline.md says how to install what the pipeline needs"
OVERFLOW = "ARITHMETIC_OVERFLOW"  # Spark's name of this error
EARLIEST, LATEST = date(1970, 1, 2).toordinal(), date(2262, 4, 11).toordinal()  # what a log is read of, a day less
LONG_S = 1e9  # no stream waits longer
NO_MEMORY = "java.lang.OutOfMemoryError"


class _Group(click.Group):
    """Reports an error that the user can do something about as one sentence, with status 1 or `UNUSABLE`."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except PipelineError as error:
            raise _Ended(str(error), error.status) from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise click.ClickException(f"{where}{error.strerror or error}") from error
        except ModuleNotFoundError as error:
            if error.name and error.name.split(".")[0] in ("pyspark", "pyarrow", "numpy"):
                raise _Ended(f"{error.name} is missing: {INSTALL}", UNUSABLE) from error
            raise
        except Exception as error:
            if type(error).__module__.split(".")[0] in ("py4j", "pyspark"):
                status = UNUSABLE if OVERFLOW in str(error) else 1
                raise _Ended(f"Spark failed: {_cause(error)}", status) from error
            raise


class _Ended(click.ClickException):
    """An error with an exit status of its own."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.exit_code = status  # type: ignore[misc]  # click reads it of the error


def _cause(error: Exception) -> str:
    """Return what is behind an error of Spark: the innermost cause that its text names."""
    if OVERFLOW in str(error):
        return (
            "a sum is beyond 64 bits (9 exabytes, or 9e18 messages): some records have an absurd `size_bytes`, "
            "`n_deliveries` or `sample_weight`; find the largest in the log, and move their files away"
        )
    if NO_MEMORY in str(error):
        return (
            "Java has too little memory for this log: give it more with --memory, such as --memory 4g, and the "
            "executors of a cluster with --conf spark.executor.memory=4g"
        )
    lines = str(error).splitlines() or [type(error).__name__]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines)[-1 if causes else 0].strip()


class _Number(click.FloatRange):
    """A number within bounds. `FloatRange` alone also takes `nan`, which no bound refuses, and `inf`."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        number = super().convert(value, parameter, context)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", parameter, context)
        return number


@click.group(cls=_Group)
def pipeline() -> None:
    """The flow log: generate one, analyse it on Spark, plan from it."""


def _on_spark(described: Callable[[], None]) -> Callable[..., None]:
    """Make the command of that name of `pipeline.commands`, with the options of Spark and this description."""

    @click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A Spark setting; may be repeated.")
    @_option("--memory", default="2g", help="Java's memory on this machine.")
    @click.option("--master", metavar="URL", help="A Spark cluster; the default is all CPUs of this machine.")
    @wraps(described)
    def command(master: str | None, memory: str, conf: tuple[str, ...], **options: Any) -> None:
        from pipeline import commands, session  # noqa: PLC0415  pyspark is optional

        settings = {"spark.driver.memory": memory, **dict(map(_setting, conf))}
        run = getattr(commands, described.__name__)
        run(start=lambda records=None: session.session(master, settings, records), **options)

    return command


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise PipelineError(f"--conf {text} is not NAME=VALUE")
    return name, value


@pipeline.command(short_help="Write a flow log to try.")
@click.argument("directory")
@_option("--records", default=200_000, type=click.IntRange(1000), help="Number, roughly.")
@_option("--seed", default=1, type=click.IntRange(0), help="Equal seeds give equal logs.")
@_option("--days", default=2, type=click.IntRange(1, 366), help="Length of the log.")
@_option("--start", default="2026-01-05", help="First day, YYYY-MM-DD.")
@_option("--routers", default=4, type=click.IntRange(3, 64), help="Number, in a ring.")
@_option("--workers", default=2, type=click.IntRange(1, 64), help="Number in each router.")
@_option("--hot-address", default=0.0, type=_Number(0, 1), help="Share of messages of one address.")
@_option("--hot-receiver", default=0.0, type=_Number(0, 1), help="Share of messages to one receiver.")
@_option("--hot-path", default=0.0, type=_Number(0, 1), help="Share of messages of one address and path.")
@_option("--hot-minutes", default=0, type=click.IntRange(0, 60), help="Time of all of these; 0 is the whole log.")
@click.option("--no-faults", is_flag=True, help="Nothing in the log is out of the ordinary.")
def generate(directory: str, no_faults: bool, start: str, **numbers: Any) -> None:
    """Write a flow log into DIRECTORY, with faults that its _truth.json lists."""
    from pipeline.files import file_system  # noqa: PLC0415  pyarrow is optional
    from pipeline.generate.scenario import FAULTS, Scenario  # noqa: PLC0415  numpy is optional
    from pipeline.generate.write import generate as write  # noqa: PLC0415  numpy is optional

    try:
        first = date.fromisoformat(start)
    except ValueError as error:
        raise PipelineError(f"--start {start} is not a day, YYYY-MM-DD") from error
    if not EARLIEST <= first.toordinal() <= LATEST - numbers["days"]:
        bounds = " and ".join(map(str, map(date.fromordinal, (EARLIEST, LATEST))))
        raise PipelineError(f"{numbers['days']} days from --start {start} are not between {bounds}: give another one")
    scenario = Scenario(**numbers, start=first, faults=() if no_faults else FAULTS)
    if scenario.hot_minutes and not scenario.hot:
        raise PipelineError(
            "--hot-minutes says when hot messages pass, and none are hot: give --hot-address, --hot-receiver or "
            "--hot-path as well"
        )
    if scenario.hot > 1:
        raise PipelineError("--hot-address, --hot-receiver and --hot-path are more than all messages together")
    if scenario.hot == 1 and scenario.faults:
        raise PipelineError("all messages are hot, so no fault would be in the log: give --no-faults as well")
    if "://" in directory:
        raise PipelineError(f"{directory} is a URL: generate a log in a local directory, and copy it there")
    file_system(directory)  # refuses a name that no file system has
    truth = write(scenario, Path(directory))
    click.echo(f"{directory}: {truth.records} records in {truth.files} files, {len(truth.faults)} faults")


LOG = click.option("--input", "source", required=True, metavar="DIR", help="The log: the directory of a flowLog.")
FROM_RUN = click.option("--results", "output", required=True, metavar="DIR", help="The --output of a run or a stream.")
TABLES = click.option("--tables", multiple=True, metavar="NAME,…", help="Only these, and those they are made from.")
WORKER_US = _option("--worker-us", default=1.6, type=_Number(0), help="CPU µs of a message in a worker, by make bench.")
CORE_US = _option("--core-us", default=0.25, type=_Number(0), help="CPU µs of a message in the core.")


@pipeline.command(short_help="Compute every table.")
@LOG
@click.option("--output", required=True, metavar="DIR", help="Directory for the tables.")
@WORKER_US
@CORE_US
@click.option("--since", metavar="TIME", help="The first hour of UTC, YYYY-MM-DD or YYYY-MM-DDTHH.")
@click.option("--until", metavar="TIME", help="The hour before which the results end.")
@TABLES
@click.option("--register", metavar="DATABASE", help="Name the tables in Spark's catalogue: DATABASE.traffic, ….")
@click.option("--report", "with_report", is_flag=True, help="Then write report.html, as `report` does.")
@click.option("--plan", "with_plan", is_flag=True, help="Then write plan.rt, as `plan` does.")
@_on_spark
def run() -> None:
    """Compute every table: traffic, paths, talkers, findings, capacity, and what a plan needs.

    Hours of which the last run into --output read the same records are not computed again.
    """


@pipeline.command(short_help="Keep every table of a growing log, day by day.")
@LOG
@click.option("--output", required=True, metavar="DIR", help="Directory for the results of days.")
@WORKER_US
@CORE_US
@click.option("--once", is_flag=True, help="Take what is there and end.")
@_option(
    "--every", "every_s", default=60.0, type=_Number(0.1, LONG_S), help="Seconds between the beginnings of batches."
)
@_option("--delay", "delay_s", default=60.0, type=_Number(0, LONG_S), help="Seconds that records may be late.")
@_option(
    "--gone", "gone_s", default=900.0, type=_Number(0, LONG_S), help="Seconds without a file until a router is gone."
)
@_option("--keep", default=30, type=click.IntRange(1), help="Days of results that stay.")
@TABLES
@_on_spark
def stream() -> None:
    """Keep every table of each day of a growing log until interrupted; continue where it was stopped or killed."""


@pipeline.command(short_help="Write the page to read each morning.")
@FROM_RUN
def report(output: str) -> None:
    """Write report.html: one page that says whether anything is wrong, and what changed since the day before."""
    from pipeline.output.days import day_before, results_in  # noqa: PLC0415  pyarrow is optional
    from pipeline.output.generations import read  # noqa: PLC0415  the same
    from pipeline.report.write import report as write  # noqa: PLC0415  the same

    where = results_in(output)
    earlier = day_before(where)
    with read(where) as found, read(earlier) if earlier else nullcontext() as before:
        click.echo(write(found, before))


@pipeline.command(short_help="Write a route table that evens out the load.")
@FROM_RUN
@click.option("--add", multiple=True, metavar="HOST:PORT", help="A new endpoint that may own managed entities.")
@click.option("--remove", multiple=True, metavar="HOST:PORT", help="An endpoint that is to own and receive nothing.")
@_option("--slack", default=0.1, type=_Number(0), help="Share above the mean that counts as even.")
def plan(**options: Any) -> None:
    """Write plan.rt: a route table and MEID map that even out the observed load with few moves."""
    from pipeline import commands  # noqa: PLC0415  pyspark is optional

    commands.plan(**options)


@pipeline.command(short_help="Check the results of a run.")
@FROM_RUN
@_option("--max-age", "max_age_h", default=2.0, type=_Number(0), help="Hours that the newest record may be old.")
@_option("--lost", default=0.0, type=_Number(0, 1), help="Share of records that may be missing.")
@click.option("--idle", is_flag=True, help="Hours without any record are nothing unusual.")
def check(output: str, **limits: Any) -> None:
    """Check the results of a run: schema, totals, gaps and freshness. Each has its exit status if it fails.

    The status is 0 if all is well, 10 for the schema, 11 for totals, 12 for gaps, 13 for freshness, the first of these
    that fails; 1 if the results cannot be read.
    """
    from pipeline.output.days import results_in  # noqa: PLC0415  pyarrow is optional
    from pipeline.output.generations import read  # noqa: PLC0415  the same
    from pipeline.quality import Limits, checks  # noqa: PLC0415  the same

    with read(results_in(output)) as found:
        made = checks(found, Limits(**limits), datetime.now(UTC))
    for one in made:
        for fault in one.faults:
            click.echo(f"{one.name}: failed: {fault}", err=True)
        if not one.faults:
            click.echo(f"{one.name}: well ({one.looked_at})")
    click.get_current_context().exit(next((one.status for one in made if one.faults), 0))


def main() -> None:
    """Run the commands for spark-submit and `python -m pipeline`."""
    pipeline(prog_name="routerd pipeline")
