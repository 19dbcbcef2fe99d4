"""All batch jobs over one log, in their order: the tables they make, and what is said of the run."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from pipeline import capacity, paths, talkers
from pipeline.anomalies import observed
from pipeline.capacity import Costs
from pipeline.errors import PipelineError
from pipeline.findings import findings
from pipeline.plan import Plan, Wishes, endpoint_sets, entity_loads, make_plan, table_text
from pipeline.storage import SUMMARY, Results, read_log
from pipeline.survey import Survey
from pipeline.traffic import traffic

PLAN: Final = "plan.rt"


def run(
    spark: SparkSession, found: Survey, results: Results, costs: Costs, tell: Callable[[str], None]
) -> None:
    """Make every table of the results, and the summary last; tables made from others read them back."""
    results.prepare()
    log = read_log(spark, found)
    first: dict[str, DataFrame] = {
        "traffic": traffic(log),
        "links": paths.links(log),
        "taken": paths.taken(log),
        "talkers": talkers.talkers(log),
        "conversations": talkers.conversations(log),
        "unheard": talkers.unheard(log),
        "quarters": observed(log),
        "load": capacity.load(log, costs),
        "entities": entity_loads(log),
        "endpoints": endpoint_sets(log),
    }
    for name, table in first.items():
        results.write(name, table)
        tell(name)
    read = results.read
    results.write("hops", paths.hops(read("links")))
    results.write("ways", paths.ways(read("taken")))
    results.write("journeys", paths.journeys(log, read("hops")))
    results.write("findings", findings(read("quarters"), read("ways"), read("unheard")))
    results.write("processes", capacity.processes(read("load"), costs))
    results.write("advice", capacity.advice(read("processes"), costs))
    tell("hops, ways, journeys, findings, processes, advice")
    results.write_text(SUMMARY, summary_text(found, results))


def summary_text(found: Survey, results: Results) -> str:
    """What the run read and left out, and totals that other tools can compare."""
    totals = results.read("traffic").selectExpr(
        "coalesce(sum(records), 0)", "coalesce(sum(messages), 0)", "coalesce(sum(bytes), 0)",
        "cast(min(minute) as string)", "cast(max(minute) as string)",
    ).collect()[0]  # fmt: skip
    said: dict[str, Any] = {
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
    return json.dumps(said, indent=1) + "\n"


def plan(results: Results, wishes: Wishes) -> tuple[Plan, str]:
    """The plan from the results of a run, and where its table was written.

    Raises PipelineError: there are no results, or nothing in them to plan from.
    """
    entities = [
        row.asDict() for row in results.read("entities").orderBy("meid", "mtype", "endpoint").collect()
    ]
    sets = [row.asDict() for row in results.read("endpoints").orderBy("mtype", "sub_id").collect()]
    made = make_plan(entities, sets, wishes)
    if not made.entries:
        raise PipelineError("no message type is left to plan: " + "; ".join(made.odd))
    return made, results.write_text(PLAN, table_text(made))
