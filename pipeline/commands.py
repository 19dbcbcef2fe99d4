"""What the commands of `routerd pipeline` do on Spark. ``start`` starts a session of Spark and ends it."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import click
from pyspark.sql import SparkSession

from pipeline import batch, lineage
from pipeline import stream as streaming
from pipeline.errors import PipelineError
from pipeline.flow_log.holding import held, places_for
from pipeline.flow_log.hours import Period
from pipeline.flow_log.survey import survey
from pipeline.hourly import VERSION
from pipeline.output import catalogue
from pipeline.output.days import results_in
from pipeline.output.directory import RESULTS, STREAM, claimed
from pipeline.output.generations import PLAN, REPORT, pointed, read, replaceable
from pipeline.output.rollups import Rollups
from pipeline.plan import Wishes, shown
from pipeline.report.write import report as write_report
from pipeline.stopping import until_stopped
from pipeline.tables.capacity import Costs
from pipeline.unread import unread

Start = Callable[..., AbstractContextManager[SparkSession]]  # with the number of records to read, if it is known


def run(
    start: Start,
    source: str,
    output: str,
    *,
    since: str | None,
    until: str | None,
    tables: tuple[str, ...],
    register: str | None,
    with_report: bool,
    with_plan: bool,
    **costs_us: float,
) -> None:
    """Compute tables of the log ``source`` into ``output``; ``costs_us`` are those of `Costs`."""
    names = _names(tables)
    if names and (with_report or with_plan):
        raise PipelineError("--report and --plan need all tables: leave out --tables")
    choice, costs = batch.Choice(Period.of(since, until), names), Costs(**costs_us)
    recipes = batch.recipes_of(costs)
    wanted = list(batch.chosen(recipes, names))  # refuses an unknown one before Spark starts
    if register is not None:
        catalogue.check(register)
    warn = partial(click.echo, err=True)
    published = False
    with (
        until_stopped() as stop,
        held(source) as (found, kept),
        claimed(output, RESULTS, source) as place,
        lineage.told(source, output, warn) as take,
    ):
        for name in (*([REPORT] if with_report else ()), *([PLAN] if with_plan else ())):
            replaceable(place, name)
        for one in found.skipped:
            click.echo(str(one), err=True)
        if not found.rows:
            raise PipelineError(
                f"{source} has no record of a flow log ({len(found.skipped)} files left out), so nothing is computed "
                "and former results stay: give the directory of a flowLog, or wait for the first file, which a router "
                "completes after `rollAge`"
            )
        former = Rollups(place, pointed(place), VERSION)
        rollups = batch.rollups_of(batch.chosen(recipes, names))
        with start(unread((*found.clean, *found.tangled), former, rollups)) as spark:
            stop.listen()
            places = places_for(spark, kept)
            try:
                made = batch.run(spark, found, place, costs, _after(time.monotonic()), places, choice)
            except Exception as error:
                raise kept.failed(found, error) from error
            published = True
            take(made.generation)
            if register is not None:
                catalogue.register(spark, made.generation, wanted, register)
        said = made.generation.summary()
    if stop.told:
        rest = "its results are published; the rest was not done"
        gone = "what this run has made is removed, and former results stay"
        click.echo(f"{output}: stopped; {rest if published else gone}", err=True)
        raise SystemExit(128 + stop.told)
    click.echo(
        f"{output}: {said['records']} records of {said['files']} files, for {said['messages']} messages of clients "
        f"and {said['hops']} hops; "
        f"{said['lost']} records lost, {len(found.skipped)} files left out, {said['copies']} copies; "
        f"{said['computed']} of {said['hours']} hours computed"
    )
    if with_report:
        with read(output) as results:
            click.echo(write_report(results))
    if with_plan:
        plan(output, (), (), Wishes().slack)


def _names(tables: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in the values of --tables."""
    return tuple(name.strip() for one in tables for name in one.split(","))


def _after(began: float) -> Callable[[str], None]:
    """Return what prints a step that is over, with the seconds since the beginning."""
    return lambda text: click.echo(f"  {time.monotonic() - began:5.0f} s  {text}")


def stream(
    start: Start, source: str, output: str, tables: tuple[str, ...], worker_us: float, core_us: float, **pace: Any
) -> None:
    """Keep the results of each day of the growing log ``source`` in ``output``; ``pace`` are the fields of `Pace`."""
    recipes = batch.chosen(batch.recipes_of(Costs(worker_us, core_us)), _names(tables))
    survey(source)  # refuses a wrong directory before Spark starts
    with until_stopped() as stop, claimed(output, STREAM, source) as place, start() as spark:
        stop.listen()
        streaming.run(spark, source, place, recipes, streaming.Pace(**pace), click.echo)
    if stop.told:
        click.echo(f"{output}: stopped; the next start continues here")


def plan(output: str, add: tuple[str, ...], remove: tuple[str, ...], slack: float) -> None:
    """Write a plan from the results in ``output``; the other arguments are the fields of `Wishes`."""
    with read(results_in(output)) as found:
        made, where = batch.plan(found, Wishes(add, remove, slack))
    for odd in made.odd:
        click.echo(odd, err=True)
    for endpoint in sorted(made.before.keys() | made.after.keys()):
        click.echo(f"  {shown(endpoint)}: {made.before.get(endpoint, 0)} -> {made.after.get(endpoint, 0)} messages")
    click.echo(f"{where}: {len(made.entries)} entries, {made.entities} managed entities, {made.moves} move")
