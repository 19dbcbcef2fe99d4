"""Pieces of a self-contained HTML page: tables, bars and lines. What a log says is text only."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

WIDTH: Final = 900
HEIGHT: Final = 220
LEFT: Final = 80  # room for the numbers of the axis
BOTTOM: Final = 24
COLOURS: Final = ("#2563eb", "#d97706", "#059669", "#db2777", "#7c3aed", "#64748b")

STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --quiet: #7a7a7a; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 86rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.note { color: var(--quiet); }
div.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem .2rem 0; text-align: left; white-space: nowrap; }
th, td { border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; } td.long { white-space: normal; min-width: 15rem; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: currentColor; }
svg .axis { stroke: var(--line); }
"""

Cell = str | int | float | datetime | bool | Sequence[str] | None


def page(title: str, parts: Iterable[str]) -> str:
    """The whole document."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def section(title: str, note: str, *parts: str) -> str:
    """A part with a heading, and what it shows."""
    return f'<h2>{escape(title)}</h2>\n<p class="note">{escape(note)}</p>\n' + "\n".join(parts)


def table(heads: Sequence[str], rows: Iterable[Sequence[Cell]], empty: str = "nothing") -> str:
    """A table; numbers to the right. Without rows the word for that."""
    rows = list(rows)
    body = "\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    if not body:
        return f"<p>{escape(empty)}</p>"
    numbers = {at for row in rows for at, value in enumerate(row) if _numeric(value)}
    head = "".join(
        f"<th{' class=number' if at in numbers else ''}>{escape(one)}</th>" for at, one in enumerate(heads)
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _numeric(value: Cell) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: Cell) -> str:
    if isinstance(value, bool) or value is None:
        return f"<td>{'' if value is None else 'yes' if value else 'no'}</td>"
    if isinstance(value, int | float):
        return f'<td class="number">{number(value)}</td>'
    if isinstance(value, datetime):
        return f"<td>{moment(value)}</td>"
    text = value if isinstance(value, str) else ", ".join(value)
    return f"<td{' class=long' if len(text) > 40 else ''}>{escape(text)}</td>"


def number(value: float) -> str:
    """For people: thousands apart, three digits that count."""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.3g}"


def moment(value: datetime) -> str:
    """A time of day in UTC, to the second."""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def milliseconds(nanoseconds: float | None) -> float | None:
    """As people say it."""
    return None if nanoseconds is None else nanoseconds / 1e6


def bars(rows: Sequence[tuple[str, float]]) -> str:
    """A bar for each name."""
    most = max((value for _, value in rows), default=0) or 1
    height = 22 * len(rows) + 4
    drawn = []
    for at, (name, value) in enumerate(rows):
        y, length = 22 * at + 4, value / most * (WIDTH - 420)
        drawn.append(
            f'<text x="290" y="{y + 13}" text-anchor="end">{escape(name[:44])}</text>'
            f'<rect x="300" y="{y}" width="{max(length, 1):.1f}" height="16" fill="{COLOURS[0]}"/>'
            f'<text x="{306 + length:.1f}" y="{y + 13}">{number(value)}</text>'
        )
    return _svg(height, drawn)


def lines(times: Sequence[datetime], series: Mapping[str, Sequence[float]], unit: str) -> str:
    """Lines over time, all on one scale from zero."""
    if not times:
        return "<p>nothing</p>"
    most = max((max(values, default=0) for values in series.values()), default=0) or 1
    start, span = times[0].timestamp(), max(1.0, times[-1].timestamp() - times[0].timestamp())
    drawn = [_axis(most, unit), *(_mark(at, times[0], span) for at in range(5))]
    for at, (name, values) in enumerate(series.items()):
        points = " ".join(
            f"{LEFT + (time.timestamp() - start) / span * (WIDTH - LEFT - 10):.1f},{_y(value, most):.1f}"
            for time, value in zip(times, values, strict=True)
        )
        colour = COLOURS[at % len(COLOURS)]
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        x, y = LEFT + 10 + 160 * at, 14
        drawn.append(f'<text x="{x}" y="{y}" style="fill:{colour}">{escape(name[:22])}</text>')
    return _svg(HEIGHT, drawn)


def _axis(most: float, unit: str) -> str:
    return "".join(
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(value)}{escape(note)}</text>'
        for value, note in ((0.0, ""), (most / 2, ""), (most, f" {unit}"))
        for y in (_y(value, most),)
    )


def _mark(at: int, start: datetime, span: float) -> str:
    time = datetime.fromtimestamp(start.timestamp() + span * at / 4, UTC)
    anchor = ("start", "middle", "middle", "middle", "end")[at]
    x = LEFT + at / 4 * (WIDTH - LEFT - 10)
    return f'<text x="{x:.1f}" y="{HEIGHT - 4}" text-anchor="{anchor}">{time:%m-%d %H:%M}</text>'


def _y(value: float, most: float) -> float:
    return 36 + (1 - value / most) * (HEIGHT - BOTTOM - 40)


def _svg(height: int, drawn: Iterable[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(drawn)}</svg>'
