"""The memory of a soak's processes as a picture: a line each, one chart for each router."""

from collections.abc import Iterable
from html import escape
from typing import Final

from tests.support.soak.readings import Series

WIDTH: Final = 900
CHART: Final = 170
LEFT, RIGHT, TOP, BOTTOM = 50, 150, 24, 22
COLOURS: Final = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a")


def picture(series: Iterable[Series]) -> str:
    """Return an SVG of all series that are memory."""
    memory = [one for one in series if one.unit == "MiB"]
    routers = list(dict.fromkeys(one.name.partition(", ")[0] for one in memory))
    charts = [
        _chart(name, [one for one in memory if one.name.startswith(f"{name}, ")], at * CHART)
        for at, name in enumerate(routers)
    ]
    height = CHART * len(routers)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12" role="img"><title>Memory of the routers\' processes over the hours of a soak</title>'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>{"".join(charts)}</svg>\n'
    )


def _chart(name: str, lines: list[Series], top: int) -> str:
    hours = max(one.times[-1] for one in lines) or 1.0
    most = max(max(one.values) for one in lines) * 1.1
    wide, high = WIDTH - LEFT - RIGHT, CHART - TOP - BOTTOM

    def x(at: float) -> float:
        return LEFT + wide * at / hours

    def y(value: float) -> float:
        return top + TOP + high * (1 - value / most)

    said = [
        f'<text x="{LEFT}" y="{top + 14}" font-weight="bold">{escape(name)}: MiB that no other process shares</text>'
    ]
    for value in (0.0, most / 2, most):
        said.append(f'<line x1="{LEFT}" x2="{LEFT + wide}" y1="{y(value):.0f}" y2="{y(value):.0f}" stroke="#d0d7de"/>')
        said.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.0f}" text-anchor="end">{value:.0f}</text>')
    for at in (0.0, hours / 2, hours):
        said.append(f'<text x="{x(at):.0f}" y="{top + CHART - 6}" text-anchor="middle">{at:.1f} h</text>')
    for place, one in enumerate(lines):
        colour = COLOURS[place % len(COLOURS)]
        points = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in zip(one.times, one.values, strict=True))
        said.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        role = escape(one.name.partition(", ")[2])
        said.append(f'<text x="{LEFT + wide + 10}" y="{top + TOP + 14 + 16 * place}" fill="{colour}">{role}</text>')
    return "".join(said)
