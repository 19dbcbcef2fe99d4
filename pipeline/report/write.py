"""The report: the results of a run as one self-contained HTML page. What a reader needs first stands first."""

from datetime import datetime
from typing import Any, NamedTuple

from pipeline.output.generations import REPORT, Generation
from pipeline.report import changes, sections, timeline
from pipeline.report.findings import addresses, findings
from pipeline.report.network import matrix, network, picture
from pipeline.report.page import headed, page, period, said, side
from pipeline.report.tables import Name, Tables
from pipeline.report.times import days
from pipeline.report.traffic import added, by_name
from pipeline.report.verdict import minute, verdict

TITLE = "Flow log of routerd"


def report(found: Generation, before: Generation | None = None) -> str:
    """Write the page from the results of a run and return its path. Raises ``PipelineError`` if tables are missing.

    ``before`` are the results of the day before, if those of the run are of a day of a stream. Without all tables they
    are not compared with.
    """
    if before is None or not found.summary()["tables"].keys() <= before.summary()["tables"].keys():
        return found.write_text(REPORT, text(Tables(found), found.summary()))
    if (earlier := before.summary()["first_minute"]) is None:
        return found.write_text(REPORT, text(Tables(found), found.summary()))
    both = Both(Tables(found, before), minute(earlier))
    return found.write_text(REPORT, text(Tables(found), found.summary(), both))


class Both(NamedTuple):
    """The tables of a day and the day before, and when the latter begins."""

    tables: Tables
    first: datetime


def text(tables: Tables, summary: dict[str, Any], both: Both | None = None) -> str:
    """Return the page; ``both`` is what it compares, if that is not in the tables."""
    if summary["first_minute"] is None:
        return page(TITLE, "The log is empty.", {"": "", "The log": sections.log(summary)})
    first, last = (minute(summary[name]) for name in ("first_minute", "last_minute"))
    anomalies = findings(tables, last)
    known = by_name(tables, [Name(*one) for one in addresses(tables, timeline.NAMED)])
    line = timeline.timeline(tables, first, last, known, anomalies)
    two = days(both.first if both else first, last)
    compared, known_of = (both.tables, findings(both.tables, last)) if both else (tables, anomalies)
    changed = changes.changes(compared, two, known_of) if two else None
    routers = network(tables)
    parts = {
        "": verdict(summary, anomalies, known.every, added(line.slots), changed),
        "Time line": timeline.shown(line),
        "Changed since the day before": changes.shown(changed),
        "Findings": sections.findings(anomalies),
        "Addresses": timeline.addresses(line),
        "Network": picture(routers, anomalies.every)
        + side(
            f"<div>{headed('Traffic matrix', matrix(routers))}</div>",
            f"<div>{headed('Links between routers', sections.links(tables))}</div>",
        )
        + headed("Paths through the network", sections.ways(tables)),
        "Top talkers": sections.talkers(tables),
        "Capacity": sections.capacity(tables),
        "The log": said("What the run read.") + sections.log(summary),
    }
    return page(TITLE, f"{period(first, last)}. All times are UTC.", parts)
