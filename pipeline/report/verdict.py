"""What stands first: is anything wrong, since when, and where; then how much passed, and what the answer lacks."""

from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any, Final

from pipeline.report.changes import Changes, sentence
from pipeline.report.findings import FAILS, Finding, Findings
from pipeline.report.page import counted, duration, share, short
from pipeline.report.traffic import Buckets, Counts, percentile

NAMED: Final = 6  # findings with a sentence of their own
OLD: Final = timedelta(hours=2)  # between the last record and the run, or the reverse


def verdict(summary: dict[str, Any], found: Findings, every: Counts, latency: Buckets, changed: Changes | None) -> str:
    """Return the first part of the page."""
    end = minute(summary["last_minute"])
    wrong = [one for one in found.wrong if one.goes_on]
    over = [one for one in found.wrong if not one.goes_on]
    at = f"when the log ended, {end:%Y-%m-%d %H:%M} UTC"
    if wrong:
        before = f"; {counted(len(over), 'other was', 'others were')} over by then" if over else ""
        first = f"{counted(len(wrong), 'thing was', 'things were')} wrong {at}{before}."
        tone = "bad" if any(one.tone == FAILS for one in wrong) else "warn"
    elif over:
        first = f"Nothing was wrong {at}; {counted(len(over), 'thing was', 'things were')} before."
        tone = "warn"
    else:
        first, tone = f"Nothing was wrong {at}.", "good"
    named = [*wrong, *over][:NAMED]
    items = "".join(f"<li>{_item(one, found)}</li>" for one in named)
    more = len(wrong) + len(over) - len(named) + found.more
    if more:
        items += f'<li>{more:,} more: see <a href="#findings">Findings</a></li>'
    if found.odd:
        paths = counted(len(found.odd), "unusual path", "unusual paths")
        items += f'<li>{paths}: see <a href="#findings">Findings</a></li>'
    both = changed is not None and changed.total[0].messages > 0
    told = [sentence(changed) if changed and both else _passed(every, latency), *_lacks(summary, end)]
    return (
        f'<section class="verdict {tone}" aria-label="Is anything wrong?"><p class="first">{escape(first)}</p>'
        + (f"<ul>{items}</ul>" if items else "")
        + "".join(f"<p>{escape(one)}</p>" for one in told)
        + "</section>"
    )


def minute(text: str) -> datetime:
    """Return a minute of the summary, which Spark wrote as text, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _item(one: Finding, found: Findings) -> str:
    state = "" if one.goes_on else ", now over"
    evidence = f": {one.row['evidence']}" if one.row["evidence"] else ""
    text = f"<b>{escape(one.sentence())}</b>, {escape(one.when())}{state}{escape(evidence)}."
    return f'{text} <a href="#finding-{found.every.index(one) + 1}" aria-label="To this finding">more</a>'


def _passed(every: Counts, latency: Buckets) -> str:
    p99 = percentile(latency, 990)
    took = "" if p99 is None else f", and 99 of 100 took at most {duration(p99)} in a router"
    return (
        f"In the whole log {counted(every.messages, 'message', 'messages', short(every.messages))} left the network or "
        "found no receiver; "
        f"{share(every.failed_share) or 'none'} were not accepted{took}."
    )


def _lacks(summary: dict[str, Any], end: datetime) -> list[str]:
    """Return what weakens the answer."""
    told = []
    made = datetime.fromisoformat(summary["made"])
    at = f"{end:%Y-%m-%d %H:%M}, and the run was made at {made.astimezone(UTC):%Y-%m-%d %H:%M}"
    if made - end > OLD:
        told.append(f"The log is old: its last record came at {at}. Nothing is known of the time between.")
    elif end - made > OLD:
        told.append(
            f"The last record is of {at}: the clock of a router is wrong, and what goes on may be among what is over."
        )
    lost, dropped, skipped = summary["lost"], summary["dropped"], len(summary["skipped"])
    missing = [
        text
        for number, text in (
            (lost, f"{counted(lost, 'record is', 'records are')} missing by their numbers"),
            (dropped, f"the routers had no room for {counted(dropped, 'record', 'records')}"),
            (skipped, f"{counted(skipped, 'file was', 'files were')} left out"),
        )
        if number
    ]
    if missing:
        told.append(f"The answer is not complete: {', '.join(missing)}. See The log.")
    return told
