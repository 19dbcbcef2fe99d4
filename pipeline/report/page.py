"""Pieces of a self-contained HTML page: sentences, figures, tables. Texts of a log never become markup."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from pipeline.report.style import STYLE

LONG: Final = 28  # characters; a longer text may be broken


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
    chapters.insert(1, f'<nav aria-label="Chapters">{" ".join(links)}</nav>')
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="generator" content="routerd pipeline">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>\n<header><h1>{escape(title)}</h1>\n{said(note)}</header>\n<main>\n"
        + "\n".join(chapters)
        + "\n</main></body></html>\n"
    )


def _anchor(heading: str) -> str:
    return escape(heading.lower().replace(" ", "-"))


def said(note: str) -> str:
    """Return a paragraph that says what something shows."""
    return f'<p class="note">{escape(note)}</p>'


def headed(heading: str, part: str) -> str:
    """Return a part of a chapter."""
    return f"<h3>{escape(heading)}</h3>{part}"


def side(*parts: str) -> str:
    """Return parts beside each other where there is room."""
    return f'<div class="side">{"".join(parts)}</div>' if parts else ""


def folded(what: str, part: str) -> str:
    """Return a part that a reader opens."""
    return f"<details><summary>{escape(what)}</summary>{part}</details>"


def figures(values: Mapping[str, Cell | tuple[Cell, str]]) -> str:
    """Return the few numbers that matter most, some with a remark."""
    shown = []
    for name, value in values.items():
        number, remark = value if isinstance(value, tuple) else (value, "")
        small = f"<small>{escape(remark)}</small>" if remark else ""
        shown.append(f"<div><dt>{escape(name)}</dt><dd>{_text(number)}{small}</dd></div>")
    return f"<dl>{''.join(shown)}</dl>"


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    empty: str = "nothing",
    cards: bool = False,
    *,
    caption: str,
    anchor: str = "",
) -> str:
    """Return a table with right-aligned numbers, or ``empty`` without rows.

    A narrow window shows the rows of ``cards`` one below the other, with the heads beside the cells. With an ``anchor``
    the row N, from 1, has the id ANCHOR-N.
    """
    rows = list(rows)
    if not rows:
        return f"<p>{escape(empty)}</p>"
    numbers = {at for row in rows for at, value in enumerate(row) if isinstance(value, int | Figure)}
    head = "".join(
        f'<th scope="col"{" class=number" if at in numbers else ""}>{escape(one)}</th>' for at, one in enumerate(heads)
    )
    body = "\n".join(
        f"<tr{f' id={anchor}-{at}' if anchor else ''}>"
        f"{''.join(_cell(value, one, cards) for value, one in zip(row, heads, strict=True))}</tr>"
        for at, row in enumerate(rows, 1)
    )
    kind = ' class="cards"' if cards else ""
    titled = f"<caption>{escape(caption)}</caption>"
    return wide(f"<table{kind}>{titled}<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>", caption)


def wide(text: str, name: str) -> str:
    """Return text that may be wider than the window and scrolls by itself, also with keys."""
    return f'<div class="wide" role="region" tabindex="0" aria-label={_quoted(name)}>{text}</div>'


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


def between(nanoseconds: float | None) -> Figure | None:
    """Return the time between two routers: less than none is what their clocks make of it."""
    return None if nanoseconds is None else milliseconds(max(0, nanoseconds))


def duration(nanoseconds: float) -> str:
    """Return a duration in the unit that leaves up to three digits before the point, for sentences."""
    nanoseconds = max(0, nanoseconds)
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size * 0.9995:
            return f"{nanoseconds / size:.3g} {unit}" if nanoseconds < size * 1000 else f"{nanoseconds / size:,.0f} s"
    return f"{nanoseconds:.0f} ns"


def share(part: float | None) -> Figure | None:
    """Return a share in percent."""
    if part is None:
        return None
    if 0 < abs(part) < 0.001:
        return Figure("< 0.1 %" if part > 0 else "> -0.1 %")
    return Figure(f"{part * 100:,.1f} %")


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


def short(count: float) -> str:
    """Return a number of messages for a picture: 1,234 as 1.2k."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size * 0.9995:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0f}"


def counted(number: float, one: str, several: str, shown: str = "") -> str:
    """Return a number with what it counts, in the singular for 1; ``shown`` is the number as it is to stand there."""
    return f"{shown or f'{number:,}'} {one if number == 1 else several}"


def days(count: float | None) -> Figure | None:
    """Return a number of days; beyond 1,000 the exact number means nothing."""
    if count is None:
        return None
    return Figure("> 1,000" if count > 1000 else f"{count:,.1f}")
