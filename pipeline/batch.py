"""All batch jobs over one log, in their order: the tables they make, and the summary of the run."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from pipeline.daily import SUMS, Daily
from pipeline.errors import PipelineError
from pipeline.flow_log.hours import EVER, Period
from pipeline.flow_log.survey import Survey
from pipeline.hourly import LITTLE, ROLLUPS, Hourly
from pipeline.output.directory import Output
from pipeline.output.generations import PLAN, Generation, begun
from pipeline.output.results import Results
from pipeline.plan import Plan, Wishes, make_plan, table_text
from pipeline.quality import damaged, table_differs
from pipeline.session import uncompiled
from pipeline.stopping import ending
from pipeline.tables import capacity, paths, talkers
from pipeline.tables.capacity import Costs
from pipeline.tables.conversations import conversations
from pipeline.tables.endpoints import endpoints, entity_loads
from pipeline.tables.findings import findings
from pipeline.tables.flows import flows

TOTALS: Final = "minutes"  # the rollup that has the totals of the log
AT_ONCE: Final = 1 << 14  # rows of a table in memory for a plan
FEW: Final = 200_000  # rows that one task takes sooner than Spark shuffles them
FEW_ROWS: Final = 30_000  # of tables that Spark takes sooner without code of its own


class Recipe(NamedTuple):
    """How a table is made from others, in the order of the arguments, from rollups, which follow, from sums of days,
    and from what ``earlier`` days have in tables, or None."""

    make: Callable[..., DataFrame]
    tables: tuple[str, ...] = ()
    rollups: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """The rollups from which it is made, also by way of sums."""
        return (*self.rollups, *(SUMS[one].rollup for one in self.sums))


@dataclass(frozen=True, slots=True)
class Choice:
    """What of the results a run makes: the hours of a period, and tables with those they are made from; () is all."""

    period: Period = EVER
    tables: tuple[str, ...] = ()


def run(
    spark: SparkSession,
    found: Survey,
    output: Output,
    costs: Costs,
    tell: Callable[[str], None],
    places: Mapping[str, str] | None = None,
    choice: Choice | None = None,
) -> Results:
    """Make tables of the results and the summary, and only then let readers have them.

    Hours of which the last run had the same records are not computed again. Tables made from others read them back. The
    output is claimed; ``places`` are those of `read_log`. A failed run removes what it made.
    """
    choice = choice or Choice()
    with begun(output) as made, ending(spark):
        hours = Hourly.of_log(spark, found, made, places or {}, choice.period)
        return make(hours, chosen(recipes_of(costs), choice.tables), tell)


def make(
    hours: Hourly,
    recipes: Mapping[str, Recipe],
    tell: Callable[[str], None],
    said: Mapping[str, Any] | None = None,
    earlier: Callable[[str], DataFrame | None] = lambda _: None,
) -> Results:
    """Compute what the hours lack, make tables and publish them; ``said`` goes into the summary, too.

    ``earlier`` returns what earlier days have in a table, if these are not among the hours.
    """
    results = Results(hours.spark, hours.made)
    daily = Daily(hours)
    lacking = hours.lacking(rollups_of(recipes))
    step = _numbered(tell, len(lacking) + len(recipes))
    if hours.once:
        hours.compute(lacking, step)
        lacking = {}
    for name, recipe in recipes.items():
        if due := [one for one in lacking if one in (TOTALS, *recipe.needs)]:
            hours.compute({one: lacking.pop(one) for one in due}, step)
        rows = {one: hours.made.rows(one) for one in recipe.tables}
        given = (
            *(_few(results.read(one), rows[one]) for one in rows),
            *map(hours.read, recipe.rollups),
            *map(daily.read, recipe.sums),
        )
        before = [earlier(one) for one in recipe.earlier]
        read = hours.bytes(recipe.rollups) + daily.bytes(recipe.sums)
        little = sum(rows.values()) <= FEW_ROWS and read <= LITTLE
        with uncompiled(hours.spark, little and not any(one is not None for one in before)):
            alike = hours.kept.by_hour(name, hours.wanted) if recipe.make is _alike else None
            results.write(name, recipe.make(*given, *before), alike)
        step(f"{name}, {hours.made.rows(name):,} rows")
    hours.made.publish(summary(hours) | dict(said or {}), hours.manifest())
    return results


def rollups_of(recipes: Mapping[str, Recipe]) -> list[str]:
    """Return the rollups that tables are made from, in order, and that of the totals."""
    wanted = {name for recipe in recipes.values() for name in recipe.needs} | {TOTALS}
    return [name for name in ROLLUPS if name in wanted]


def _numbered(tell: Callable[[str], None], steps: int) -> Callable[[str], None]:
    """Return what tells of a step that is over, with its number."""
    number = count(1)
    return lambda text: tell(f"{next(number)} of {steps}: {text}")


def recipes_of(costs: Costs) -> dict[str, Recipe]:
    """Return how each table is made, in an order in which those come first from which others are made.

    The first one is written soon, as it needs no other rollup than that of the totals; readers have it together with
    all others.
    """
    return {
        "load": Recipe(partial(capacity.load, costs=costs), rollups=("minutes",)),
        "flows": Recipe(flows, sums=("flows",)),
        "traffic": Recipe(_alike, rollups=("traffic",)),
        "latencies": Recipe(_alike, rollups=("latencies",)),
        "quarters": Recipe(_alike, rollups=("quarters",)),
        "endpoints": Recipe(endpoints, sums=("endpoints",)),
        "links": Recipe(paths.links, ("flows",), sums=("transits",)),
        "hops": Recipe(paths.hops, ("links",)),
        "journeys": Recipe(paths.journeys, ("hops",), sums=("times",)),
        "taken": Recipe(paths.taken, ("flows",)),
        "ways": Recipe(paths.ways, ("taken",)),
        "talkers": Recipe(talkers.talkers, ("flows",)),
        "conversations": Recipe(conversations, ("flows",), sums=("followed",)),
        "unheard": Recipe(talkers.unheard, ("flows",)),
        "entities": Recipe(entity_loads, ("flows",)),
        "findings": Recipe(findings, ("quarters", "ways", "unheard"), earlier=("quarters",)),
        "processes": Recipe(partial(capacity.processes, costs=costs), ("load",), earlier=("load",)),
        "advice": Recipe(partial(capacity.advice, costs=costs), ("processes",)),
    }


def _few(table: DataFrame, rows: int) -> DataFrame:
    """Return a table in one partition if it has few rows: what is made from it then needs no shuffle."""
    return table.coalesce(1) if rows <= FEW else table


def _alike(rows: DataFrame) -> DataFrame:
    """Return the rollup of the same name as a table: none of its rows is of two hours."""
    return rows


def chosen(recipes: dict[str, Recipe], tables: Iterable[str]) -> dict[str, Recipe]:
    """Return the recipes of these tables and of those they are made from, in order; without a table all of them.

    Raises ``PipelineError`` for a table that does not exist.
    """
    wanted = set(tables) or set(recipes)
    if strange := sorted(wanted - recipes.keys()):
        raise PipelineError(f"there is no table {strange[0] or repr('')}; the tables are {', '.join(recipes)}")
    for name in reversed(recipes):
        if name in wanted:
            wanted.update(recipes[name].tables)
    return {name: recipe for name, recipe in recipes.items() if name in wanted}


def summary(hours: Hourly) -> dict[str, Any]:
    """Return what the run read and left out, and totals that other tools can compare."""
    found = hours.log
    totals = hours.read(TOTALS).agg(
        *(f.coalesce(f.sum(name), f.lit(0)) for name in ("records", "sent", "sent_bytes", "messages", "bytes")),
        f.min("minute").cast("string"), f.max("minute").cast("string"),
    ).collect()[0]  # fmt: skip
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "files": len(found.clean) + len(found.tangled),
        "copies": len(found.copies),
        "compacted": found.compacted,
        "skipped": [str(one) for one in found.skipped],
        "hours": len(hours.wanted),
        "computed": len(hours.computed),
        "records": totals[0],
        "messages": totals[1],
        "bytes": totals[2],
        "hops": totals[3],
        "hop_bytes": totals[4],
        "first_minute": totals[5],
        "last_minute": totals[6],
        "lost": hours.lost(),
        "dropped": hours.dropped(),
    }


def plan(found: Generation, wishes: Wishes) -> tuple[Plan, str]:
    """Plan from the results of a run, without Spark; return the plan and the path of its table.

    Raises ``PipelineError`` if there are no results, or nothing in them to plan from.
    """
    for name in ("entities", "endpoints"):
        if not found.files(name):
            raise found.lacks(name)
        if why := table_differs(found, name):
            raise found.strange(name, why)
    made = make_plan(partial(_rows, found, "entities"), _rows(found, "endpoints"), wishes)
    if not made.entries:
        raise PipelineError("no message type is left to plan: " + "; ".join(made.odd))
    return made, found.write_text(PLAN, table_text(made))


def _rows(found: Generation, name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as they are in its files. Raises ``PipelineError`` if one is damaged."""
    for part in found.files(name):
        try:
            with found.output.files.open_input_file(part) as file:
                for some in pq.ParquetFile(file).iter_batches(AT_ONCE):
                    yield from some.to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise PipelineError(f"{damaged(part, error)}; `routerd pipeline run` makes it anew") from error
