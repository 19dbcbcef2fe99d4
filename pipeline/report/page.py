"""Pieces of a self-contained HTML page: figures, tables, bars and lines. Texts of a log never become markup."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Final

COLOURS: Final = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#64748b")
HEIGHT: Final = 1000  # of a plot, in units of its own; the page stretches it
LONG: Final = 28  # characters; a longer text may be broken
MARKS: Final = 5  # times on an axis
_ROUND: Final = (1, 2, 2.5, 5, 10)  # a scale ends at one of these, times a power of ten

STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --quiet: #70757e; --stripe: #8881; }
@media (prefers-color-scheme: dark) { :root { --quiet: #9aa0aa; } }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 80rem; margin: 1.5rem auto 4rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.6rem 0 0; }
p.note { color: var(--quiet); margin: .2rem 0 .8rem; max-width: 60rem; }
nav { margin: 1rem 0; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; }
dl { display: grid; gap: .6rem; margin: 1rem 0; }
dl { grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); }
dl div { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .8rem; }
dt { color: var(--quiet); font-size: .85rem; } dd { margin: 0; font-size: 1.25rem; }
div.wide { overflow-x: auto; margin-top: .6rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .5rem; text-align: left; vertical-align: top; white-space: nowrap; }
th, td { border-bottom: 1px solid var(--line); }
th { color: var(--quiet); font-weight: 600; font-size: .85rem; vertical-align: bottom; }
tbody tr:nth-child(even) { background: var(--stripe); }
td.number, th.number { text-align: right; }
td.long { white-space: normal; overflow-wrap: anywhere; min-width: 12rem; }
td.bar { width: 60%; min-width: 6rem; } table.bars { width: 100%; max-width: 60rem; }
td.bar div { height: 1rem; margin-top: .2rem; border-radius: .15rem; background: #2563eb; min-width: 1px; }
figure { margin: .6rem 0 0; }
figcaption { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin-bottom: .5rem; }
figcaption i { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; }
div.plot { display: grid; grid-template-columns: auto 1fr; column-gap: .5rem; font-size: .8rem; }
div.plot svg { width: 100%; height: 14rem; display: block; }
div.plot div { display: flex; justify-content: space-between; color: var(--quiet); }
div.scale { flex-direction: column; text-align: right; margin: -.6rem 0; }
div.times { grid-column: 2; margin-top: .3rem; } div.times span { white-space: nowrap; }
svg line { stroke: var(--line); stroke-width: 1; } svg polyline { fill: none; stroke-width: 1.5; }
svg * { vector-effect: non-scaling-stroke; }
@media (max-width: 60rem) {
 table.cards thead { display: none; } table.cards, table.cards tbody { display: block; }
 table.cards tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line); }
 table.cards td { display: grid; grid-template-columns: 7rem 1fr; border: 0; padding: .1rem .4rem; }
 table.cards td { text-align: left; white-space: normal; overflow-wrap: anywhere; }
 table.cards td::before { content: attr(data-head); color: var(--quiet); }
 table.cards td:empty { display: none; }
}
@media (max-width: 44rem) { td.bar { display: none; } div.times span:nth-child(even) { display: none; }
}
"""


class Figure(str):
    """A number as people read it, with its unit; it is right-aligned."""

    __slots__ = ()


Cell = str | int | datetime | None


def page(title: str, note: str, parts: Mapping[str, str]) -> str:
    """Return the whole document; ``parts`` are by heading, and the heading of the first one is empty."""
    chapters = [
        f'<h2 id="{_anchor(heading)}">{escape(heading)}</h2>\n{part}' if heading else part
        for heading, part in parts.items()
    ]
    links = (f'<a href="#{_anchor(heading)}">{escape(heading)}</a>' for heading in parts if heading)
    chapters.insert(1, f"<nav>{' '.join(links)}</nav>")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="generator" content="routerd pipeline">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n{said(note)}\n"
        + "\n".join(chapters)
        + "\n</body></html>\n"
    )


def _anchor(heading: str) -> str:
    return escape(heading.lower().replace(" ", "-"))


def said(note: str) -> str:
    """Return a paragraph that says what something shows."""
    return f'<p class="note">{escape(note)}</p>'


def figures(values: Mapping[str, Cell]) -> str:
    """Return the few numbers that matter most."""
    shown = (f"<div><dt>{escape(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in values.items())
    return f"<dl>{''.join(shown)}</dl>"


def table(heads: Sequence[str], rows: Iterable[Sequence[Cell]], empty: str = "nothing", cards: bool = False) -> str:
    """Return a table with right-aligned numbers, or ``empty`` without rows.

    A narrow window shows the rows of ``cards`` one below the other, with the heads beside the cells.
    """
    rows = list(rows)
    if not rows:
        return f"<p>{escape(empty)}</p>"
    numbers = {at for row in rows for at, value in enumerate(row) if isinstance(value, int | Figure)}
    head = "".join(f"<th{' class=number' if at in numbers else ''}>{escape(one)}</th>" for at, one in enumerate(heads))
    body = "\n".join(
        f"<tr>{''.join(_cell(value, one, cards) for value, one in zip(row, heads, strict=True))}</tr>" for row in rows
    )
    kind = ' class="cards"' if cards else ""
    return _wide(f"<table{kind}><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>")


def _wide(text: str) -> str:
    """Return text that may be wider than the window and scrolls by itself."""
    return f'<div class="wide">{text}</div>'


def _cell(value: Cell, head: str, cards: bool) -> str:
    text = _text(value)
    number = isinstance(value, int | Figure)
    kind = ' class="number"' if number else ' class="long"' if len(text) > LONG else ""
    return f"<td{kind}{f' data-head={_quoted(head)}' if cards else ''}>{text}</td>"


def _quoted(text: str) -> str:
    return f'"{escape(text)}"'


def _text(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return f"{value:,}"
    return escape(f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else value)


def period(first: datetime, last: datetime) -> str:
    """Return the first and last minute in UTC, with one date if it is the same."""
    start, end = first.astimezone(UTC), last.astimezone(UTC)
    until = f"{end:%H:%M}" if start.date() == end.date() else f"{end:%Y-%m-%d %H:%M}"
    return f"{start:%Y-%m-%d %H:%M} to {until}"


def milliseconds(nanoseconds: float | None) -> Figure | None:
    """Return milliseconds with three decimals, so that the points of a column are aligned."""
    return None if nanoseconds is None else Figure(f"{nanoseconds / 1e6:,.3f}")


def share(part: float | None) -> Figure | None:
    """Return a share in percent."""
    if part is None:
        return None
    return Figure("< 0.1 %" if 0 < part < 0.001 else f"{part * 100:,.1f} %")


def octets(count: int | None) -> Figure | None:
    """Return bytes in the unit that leaves up to three digits before the point."""
    if count is None:
        return None
    if count < 1000:
        return Figure(f"{count} B")
    size, units = count / 1000, ["kB", "MB", "GB", "TB"]
    while size >= 999.95 and len(units) > 1:
        size /= 1000
        del units[0]
    return Figure(f"{size:,.1f} {units[0]}")


def days(count: float | None) -> Figure | None:
    """Return a number of days; beyond 1,000 the exact number means nothing."""
    if count is None:
        return None
    return Figure("> 1,000" if count > 1000 else f"{count:,.1f}")


def bars(rows: Sequence[tuple[str, int, Cell, Cell]], heads: tuple[str, str, str, str]) -> str:
    """Return a bar for each name, as long as its count, with two more cells."""
    most = max((count for _, count, _, _ in rows), default=0) or 1
    if not rows:
        return "<p>nothing</p>"
    name, *others = (escape(one) for one in heads)
    head = f"<th>{name}</th><th></th>" + "".join(f'<th class="number">{one}</th>' for one in others)
    body = "\n".join(
        f"<tr>{_cell(one, '', False)}"
        f'<td class="bar"><div style="width:{count / most * 100:.1f}%"></div></td>'
        + "".join(_cell(value, "", False) for value in (count, *more))
        + "</tr>"
        for one, count, *more in rows
    )
    return _wide(f'<table class="bars"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>')


def lines(start: datetime, step_s: int, series: Mapping[str, Sequence[float]], unit: str) -> str:
    """Return a plot of several series over time, all on one scale from zero."""
    count = max((len(values) for values in series.values()), default=0)
    if not count:
        return "<p>nothing</p>"
    top = round_up(max(max(values, default=0.0) for values in series.values()))
    drawn = [f'<line x1="0" x2="{count}" y1="{y}" y2="{y}"/>' for y in (0, HEIGHT // 2, HEIGHT)]
    legend = []
    for at, (name, values) in enumerate(series.items()):
        colour = COLOURS[at % len(COLOURS)]
        points = " ".join(
            f"{x},{HEIGHT - value / top * HEIGHT:.0f}" for place, value in enumerate(values) for x in (place, place + 1)
        )
        drawn.append(f'<polyline points="{points}" style="stroke:{colour}"/>')
        legend.append(f'<span><i style="background:{colour}"></i>{escape(name)}</span>')
    scale = "".join(f"<span>{value:,g} {escape(unit)}</span>" for value in (top, top / 2, 0))
    whole = timedelta(seconds=step_s * count)
    times = "".join(
        f"<span>{(start + whole * at / (MARKS - 1)).astimezone(UTC):%m-%d %H:%M}</span>" for at in range(MARKS)
    )
    return (
        f'<figure><figcaption>{"".join(legend)}</figcaption><div class="plot">'
        f'<div class="scale">{scale}</div>'
        f'<svg viewBox="0 0 {count} {HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(", ".join(series))} over time">{"".join(drawn)}</svg>'
        f'<div class="times">{times}</div></div></figure>'
    )


def round_up(value: float) -> float:
    """Return the end of a scale that contains a value: 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(f"{value:.0f}") - 1) if value >= 1 else 1.0
    while power > value:
        power /= 10
    return next((power * one for one in _ROUND if power * one >= value), power * _ROUND[-1])
