"""Plots as SVG over one time axis: lines, stacked shares, a heat map, and lanes of findings.

The drawing is stretched to the width of the page; all texts stand beside it, so they keep their size.
"""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from typing import Final, NamedTuple

from pipeline.report.page import duration
from pipeline.report.style import SERIES
from pipeline.report.times import Axis

HEIGHT: Final = 1000  # of a plot, in units of its own; the page stretches it
MARKS: Final = 5  # times on an axis
# A latency has the class of the first limit that it does not exceed: the same each morning, so that pages compare.
LIMITS_NS: Final = (1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9, 3e9)
_ROUND: Final = (1, 2, 2.5, 5, 10)  # a scale ends at one of these, times a power of ten

Values = Sequence[float | None]


class Scale(NamedTuple):
    """What is at the bottom and the top of a plot, and its labels from top to bottom at equal distances."""

    least: float
    most: float
    labels: tuple[str, ...]
    decades: bool = False

    def y(self, value: float) -> int:
        """Return the distance from the top."""
        if self.decades:
            low, high, at = math.log10(self.least), math.log10(self.most), math.log10(max(value, self.least))
        else:
            low, high, at = self.least, self.most, value
        return round(HEIGHT - (at - low) / (high - low) * HEIGHT)


class Band(NamedTuple):
    """A time in which something was out of the ordinary."""

    first: datetime
    last: datetime
    said: str


class Lane(NamedTuple):
    """A line of the picture of findings: its name, where it leads, its ``tone`` (a class), its times."""

    name: str
    anchor: str
    tone: str
    bands: Sequence[Band]


def rates(most: float, unit: str) -> Scale:
    """Return a scale from zero."""
    top = round_up(most)
    return Scale(0.0, top, tuple(f"{value:,g}{unit}" for value in (top, top / 2, 0)))


def shares(most: float) -> Scale:
    """Return a scale of shares from zero."""
    top = min(round_up(most * 100) / 100, 1.0)
    return Scale(0.0, top, tuple(f"{value * 100:,.3g} %" for value in (top, top / 2, 0)))


def latencies(values: Iterable[float | None]) -> Scale:
    """Return a scale of powers of ten that holds all of these ns."""
    known = [max(value, 1.0) for value in values if value is not None] or [1e6]
    low = math.floor(math.log10(min(known)))
    high = max(math.ceil(math.log10(max(known))), low + 1)
    return Scale(10.0**low, 10.0**high, tuple(duration(10.0**at) for at in range(high, low - 1, -1)), decades=True)


def round_up(value: float) -> float:
    """Return the end of a scale that contains a value: 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(f"{value:.0f}") - 1) if value >= 1 else 1.0
    while power > value:
        power /= 10
    return next((power * one for one in _ROUND if power * one >= value), power * _ROUND[-1])


def key(kind: str, name: str) -> str:
    """Return an entry of a legend."""
    return f'<span><i class="key {kind}"></i>{escape(name)}</span>'


def lines(
    title: str, axis: Axis, series: Sequence[tuple[str, Values]], scale: Scale, bands: Sequence[Band] = ()
) -> str:
    """Return a plot with a line for each series; there is a gap where a value is None."""
    drawn = "".join(
        f'<path class="line s{at % SERIES}" d="{_path(values, scale)}"/>' for at, (_, values) in enumerate(series)
    )
    legend = "".join(key(f"s{at % SERIES}", name) for at, (name, _) in enumerate(series))
    return _figure(title, legend, axis, scale, drawn, bands)


def stacked(
    title: str, axis: Axis, series: Sequence[tuple[str, int, Values]], scale: Scale, bands: Sequence[Band] = ()
) -> str:
    """Return a plot with the values of a slot one above the other; a series has a name and a colour."""
    drawn, below = [], [0.0] * axis.slots
    for _, colour, values in series:
        parts = []
        for slot, value in enumerate(values):
            if value:
                top, bottom = scale.y(below[slot] + value), scale.y(below[slot])
                parts.append(f"M{slot} {bottom}V{top}h1V{bottom}z")
                below[slot] += value
        drawn.append(f'<path class="f{colour}" d="{"".join(parts)}"/>' if parts else "")
    legend = "".join(key(f"s{colour}", name) for name, colour, _ in series)
    return _figure(title, legend, axis, scale, "".join(drawn), bands)


def _path(values: Values, scale: Scale) -> str:
    parts, drawing, former = [], False, 0
    for slot, value in enumerate(values):
        if value is None:
            drawing = False
            continue
        y = scale.y(value)
        if not drawing:
            parts.append(f"M{slot} {y}h1")
        else:
            parts.append(f"V{y}h1" if y != former else "h1")
        drawing, former = True, y
    return "".join(parts)


def _figure(title: str, legend: str, axis: Axis, scale: Scale, drawn: str, bands: Sequence[Band]) -> str:
    steps = len(scale.labels) - 1
    rules = "".join(
        f'<line x1="0" x2="{axis.slots}" y1="{y}" y2="{y}"/>' for y in (HEIGHT * at // steps for at in range(steps + 1))
    )
    labels = "".join(f"<span>{escape(one)}</span>" for one in scale.labels)
    shaded = "".join(_band(axis, one, 0, HEIGHT) for one in bands)
    return (
        f"<figure><figcaption><b>{escape(title)}</b>{legend}</figcaption>"
        f'<div class="plot"><div class="scale" aria-hidden="true">{labels}</div>'
        f"{_svg(axis, HEIGHT, title, rules + _days(axis, HEIGHT) + shaded + drawn)}{_times(axis)}</div></figure>"
    )


def _svg(axis: Axis, height: int, title: str, drawn: str, style: str = "") -> str:
    return (
        f'<svg class="time" viewBox="0 0 {axis.slots} {height}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(title)}, over time"{style}>{drawn}</svg>'
    )


def _band(axis: Axis, one: Band, y: float, height: float, kind: str = "band") -> str:
    """Return a time as a rectangle; a short one stays visible."""
    first, last = axis.place(one.first), axis.place(one.last)
    long = max(last - first, axis.slots / 250)
    first = min(first, axis.slots - long)
    return (
        f'<rect class="{kind}" x="{first:.2f}" y="{y:g}" width="{long:.2f}" height="{height:g}">'
        f"<title>{escape(one.said)}</title></rect>"
    )


def _days(axis: Axis, height: int) -> str:
    return "".join(f'<line class="day" x1="{at:g}" x2="{at:g}" y1="0" y2="{height}"/>' for at in axis.midnights())


def _times(axis: Axis) -> str:
    times = (f"<span>{axis.when(axis.slots * at / (MARKS - 1)):%m-%d %H:%M}</span>" for at in range(MARKS))
    return f'<div class="times" aria-hidden="true">{"".join(times)}</div>'


def lanes(title: str, axis: Axis, rows: Sequence[Lane]) -> str:
    """Return a line for each row with the times at which it was so; names lead to where more is said."""
    names = "".join(f'<a href="#{escape(one.anchor)}">{escape(one.name)}</a>' for one in rows)
    rules = "".join(f'<line x1="0" x2="{axis.slots}" y1="{at}" y2="{at}"/>' for at in range(len(rows) + 1))
    drawn = "".join(
        _band(axis, band, at + 0.2, 0.6, f"lane {one.tone}") for at, one in enumerate(rows) for band in one.bands
    )
    return _rows(title, "", axis, names, len(rows), rules + _days(axis, len(rows)) + drawn)


class Heat(NamedTuple):
    """A row of a heat map: latencies in ns and how many there are by slot, and times that have a frame."""

    name: str
    values: Values
    counts: Sequence[int]
    bands: Sequence[Band] = ()


def heat(title: str, axis: Axis, rows: Sequence[Heat]) -> str:
    """Return a row of cells for each name, with latencies as colours."""
    cells, used = [], set()
    for at, (_, values, counts, _) in enumerate(rows):
        for slot, value in enumerate(values):
            if value is None:
                continue
            kind = heat_class(value)
            used.add(kind)
            cells.append(
                f'<rect class="h{kind}" x="{slot}" y="{at}" width="1" height="1"><title>{axis.when(slot):%m-%d %H:%M} '
                f"{duration(value)}, {counts[slot]}</title></rect>"
            )
    legend = "".join(key(f"h{kind}", _said(kind)) for kind in sorted(used))
    cells += [_band(axis, band, at, 1, "mark") for at, one in enumerate(rows) for band in one.bands]
    names = "".join(f'<span title="{escape(one.name)}">{escape(one.name)}</span>' for one in rows)
    return _rows(title, legend, axis, names, len(rows), "".join(cells) + _days(axis, len(rows)))


def heat_class(nanoseconds: float) -> int:
    """Return the class of a latency, from 0."""
    return next((at for at, limit in enumerate(LIMITS_NS) if nanoseconds <= limit), len(LIMITS_NS))


def _said(kind: int) -> str:
    return f"> {duration(LIMITS_NS[-1])}" if kind == len(LIMITS_NS) else f"≤ {duration(LIMITS_NS[kind])}"


def _rows(title: str, legend: str, axis: Axis, names: str, count: int, drawn: str) -> str:
    style = f' style="height:{count * 1.3:g}rem"'
    return (
        f"<figure><figcaption><b>{escape(title)}</b>{legend}</figcaption>"
        f'<div class="plot"><div class="names">{names}</div>'
        f"{_svg(axis, count, title, drawn, style)}{_times(axis)}</div></figure>"
    )
