"""All batch jobs over one log, in their order: the tables they make, and the summary of the run."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pipeline.errors import PipelineError
from pipeline.flow_log.records import read_log
from pipeline.flow_log.survey import Survey
from pipeline.output.directory import Output
from pipeline.output.generations import PLAN, begin
from pipeline.output.results import Results
from pipeline.plan import Plan, Wishes, endpoint_sets, entity_loads, make_plan, table_text
from pipeline.tables import capacity, paths, talkers
from pipeline.tables.anomalies import observed
from pipeline.tables.capacity import Costs
from pipeline.tables.findings import findings
from pipeline.tables.flows import flows
from pipeline.tables.traffic import traffic


def run(
    spark: SparkSession,
    found: Survey,
    output: Output,
    costs: Costs,
    tell: Callable[[str], None],
    places: Mapping[str, str] | None = None,
) -> Results:
    """Make every table of the results and the summary, and only then let readers have them.

    Tables made from others read them back. The output is claimed; ``places`` are those of `read_log`. A failed run
    removes what it made.
    """
    made = begin(output)
    results = Results(spark, made)
    try:
        log = read_log(spark, found, places)
        for name, table in tables(log, results.read, costs).items():
            results.write(name, table())
            tell(name)
        made.publish(summary(found, results))
    except BaseException:
        made.remove()
        raise
    return results


def tables(log: DataFrame, read: Callable[[str], DataFrame], costs: Costs) -> dict[str, Callable[[], DataFrame]]:
    """Return what makes each table, in an order in which ``read`` finds the tables that it needs.

    Tables without times of day come from `flows`, so a run reads the log once for all of them.
    """
    return {
        "flows": lambda: flows(log),
        "traffic": lambda: traffic(log),
        "quarters": lambda: observed(log),
        "load": lambda: capacity.load(log, costs),
        "endpoints": lambda: endpoint_sets(log),
        "links": lambda: paths.links(read("flows"), log),
        "hops": lambda: paths.hops(read("links")),
        "journeys": lambda: paths.journeys(log, read("hops")),
        "taken": lambda: paths.taken(read("flows")),
        "ways": lambda: paths.ways(read("taken")),
        "talkers": lambda: talkers.talkers(read("flows")),
        "conversations": lambda: talkers.conversations(read("flows")),
        "unheard": lambda: talkers.unheard(read("flows")),
        "entities": lambda: entity_loads(read("flows")),
        "findings": lambda: findings(read("quarters"), read("ways"), read("unheard")),
        "processes": lambda: capacity.processes(read("load"), costs),
        "advice": lambda: capacity.advice(read("processes"), costs),
    }


def summary(found: Survey, results: Results) -> dict[str, Any]:
    """Return what the run read and left out, and totals that other tools can compare."""
    totals = results.read("traffic").selectExpr(
        "coalesce(sum(records), 0)", "coalesce(sum(messages), 0)", "coalesce(sum(bytes), 0)",
        "cast(min(minute) as string)", "cast(max(minute) as string)",
    ).collect()[0]  # fmt: skip
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "files": len(found.clean) + len(found.tangled),
        "copies": len(found.copies),
        "compacted": found.compacted,
        "skipped": [str(one) for one in found.skipped],
        "records": totals[0],
        "messages": totals[1],
        "bytes": totals[2],
        "first_minute": totals[3],
        "last_minute": totals[4],
        "lost": found.lost(),
        "dropped": found.dropped(),
    }


def plan(results: Results, wishes: Wishes) -> tuple[Plan, str]:
    """Plan from the results of a run; return the plan and the path of its table.

    Raises ``PipelineError`` if there are no results, or nothing in them to plan from.
    """
    entities = [row.asDict() for row in results.read("entities").orderBy("meid", "mtype", "endpoint").collect()]
    sets = [row.asDict() for row in results.read("endpoints").orderBy("mtype", "sub_id").collect()]
    made = make_plan(entities, sets, wishes)
    if not made.entries:
        raise PipelineError("no message type is left to plan: " + "; ".join(made.odd))
    return made, results.generation.write_text(PLAN, table_text(made))
