"""The network as a picture: routers, lines between them as thick as their traffic, and where findings are."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from itertools import product
from typing import Final, NamedTuple

import pyarrow.compute as pc

from pipeline.report.findings import FAILS, LATE, Finding
from pipeline.report.page import Cell, counted, duration, octets, said, short, table
from pipeline.report.tables import OUTER, Row, Tables, shown

DRAWN: Final = 12  # routers with a place of their own; the others share one
LABELLED: Final = 24  # lines with their number beside them
WIDTH: Final = 400
HEIGHT: Final = 340
CIRCLE: Final = 35  # radius of a router
THICKEST: Final = 9.0
THINNEST: Final = 1.5
NAME: Final = 10  # characters of a router's name in the picture


class Edge(NamedTuple):
    """A line from one router to the next."""

    messages: int
    hint: str


class Network(NamedTuple):
    """Routers by what is drawn: messages that came in and went out there; lines; and who the others are."""

    routers: dict[str, tuple[int, int]]
    edges: dict[tuple[str, str], Edge]
    matrix: dict[tuple[str, str], int]
    others: int


def network(tables: Tables) -> Network:
    """Return the busiest routers, and the others as one."""
    pairs = shown(
        tables.summed(
            "traffic",
            {one: pc.field(one) for one in ("origin", "router_id")},
            {"messages": pc.field("messages")},
            OUTER,
        )
    )
    hops = tables.rows("hops", pc.field("onward").is_valid())  # of others the name is not known any more
    busy: dict[str, int] = defaultdict(int)
    for rows, ends in ((pairs, ("origin", "router_id")), (hops, ("router_id", "onward"))):
        for row, end in product(rows, ends):
            busy[str(row[end])] += row["messages"]
    ordered = sorted(busy, key=lambda one: (-busy[one], one))
    most = DRAWN if len(ordered) <= DRAWN else DRAWN - 1
    others = len(ordered) - most
    called = {one: one if at < most else f"{others} others" for at, one in enumerate(ordered)}
    places: dict[str, list[int]] = {name: [0, 0] for name in called.values()}
    matrix: dict[tuple[str, str], int] = defaultdict(int)
    for row in pairs:
        one, other = called[str(row["origin"])], called[str(row["router_id"])]
        places[one][0] += row["messages"]
        places[other][1] += row["messages"]
        matrix[one, other] += row["messages"]
    return Network(
        {name: (came, went) for name, (came, went) in sorted(places.items())},
        _edges(hops, called),
        matrix,
        max(others, 0),
    )


def _edges(hops: Sequence[Row], called: Mapping[str, str]) -> dict[tuple[str, str], Edge]:
    found: dict[tuple[str, str], Edge] = {}
    for row in hops:
        one, other = called[str(row["router_id"])], called[str(row["onward"])]
        if one == other:
            continue
        times = (
            ""
            if row["transit_p99"] is None
            else (
                f"; half of {row['transit_n']:,} took at most {duration(row['transit_p50'])}, 99 of 100 "
                f"{duration(row['transit_p99'])}"
            )
        )
        before = found.get((one, other))
        hint = f"{counted(row['messages'], 'message', 'messages')}, {octets(row['bytes'])}{times}"
        found[one, other] = (
            Edge(row["messages"] + before.messages, "several lines") if before else Edge(row["messages"], hint)
        )
    return found


def picture(made: Network, found: Sequence[Finding]) -> str:
    """Return the picture and what it shows in words."""
    if not made.routers:
        return said("No message passed a router.")
    places = _places(list(made.routers))
    most = max((one.messages for one in made.edges.values()), default=0) or 1
    labelled = set(sorted(made.edges, key=lambda pair: -made.edges[pair].messages)[:LABELLED])
    lines, words = [], []
    for (one, other), edge in made.edges.items():
        line, label = _line(places[one], places[other], edge, most, f"{one} to {other}: {edge.hint}")
        lines.append(line)
        if (one, other) in labelled:
            words.append(label)
    drawn = "".join(_router(name, places[name], made, _tone(name, found)) for name in made.routers)
    note = (
        "The number beside a line is that of messages in the direction of its arrow, in the whole log; lines are as "
        "thick as their traffic; in a router, messages that came in there and that left there. A router with a red "
        "or yellow ring has a finding that went on when the log ended: red where messages fail, yellow where they are "
        "late."
    )
    if made.others:
        note += f" The {DRAWN - 1} busiest routers have a place of their own; {made.others} others share one."
    if len(made.edges) > LABELLED:
        note += f" The {LABELLED} busiest lines have their number."
    label = f"{len(made.routers)} routers and {len(made.edges)} lines between them; the tables below have the figures"
    return said(note) + (
        f'<figure><svg class="network" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"{''.join(lines)}{''.join(words)}{drawn}</svg></figure>"
    )


def _tone(name: str, found: Sequence[Finding]) -> str:
    tones = {one.tone for one in found if one.goes_on and one.row["router_id"] == name}
    return FAILS if FAILS in tones else LATE if LATE in tones else ""


def _places(names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Return the places on an ellipse, the first one at the top."""
    if len(names) == 1:
        return {names[0]: (WIDTH / 2, HEIGHT / 2)}
    wide, high = WIDTH / 2 - CIRCLE - 4, HEIGHT / 2 - CIRCLE - 4
    turns = {name: 2 * math.pi * at / len(names) - math.pi / 2 for at, name in enumerate(names)}
    return {
        name: (WIDTH / 2 + wide * math.cos(turn), HEIGHT / 2 + high * math.sin(turn)) for name, turn in turns.items()
    }


def _line(one: tuple[float, float], other: tuple[float, float], edge: Edge, most: int, hint: str) -> tuple[str, str]:
    """Return an arrow right of the middle between two places, so that both directions are seen, and its number."""
    across, down = other[0] - one[0], other[1] - one[1]
    far = math.hypot(across, down) or 1.0
    (x, y), half = (across / far, down / far), max(THINNEST, THICKEST * edge.messages / most) / 2
    head = half + 4
    aside = head + 1.0

    def at(along: float, off: float) -> str:
        return f"{one[0] + x * along - y * (off + aside):.1f} {one[1] + y * along + x * (off + aside):.1f}"

    start, end = CIRCLE + 2.0, far - CIRCLE - 2.0
    neck = max(end - 2 * head, start)
    points = [(start, -half), (neck, -half), (neck, -head), (end, 0.0), (neck, head), (neck, half), (start, half)]
    shape = "L".join(at(*point) for point in points)
    line = f'<path class="edge" d="M{shape}z"><title>{escape(hint)}</title></path>'
    middle, off = at((start + neck) / 2, head + 9).split()
    return line, f'<text class="over" x="{middle}" y="{float(off) + 4:.1f}">{short(edge.messages)}</text>'


def _router(name: str, place: tuple[float, float], made: Network, tone: str) -> str:
    came, went = made.routers[name]
    x, y = place
    said_of = f"{name}: {counted(came, 'message', 'messages')} came in here, {went:,} left here or found no receiver"
    cut = name if len(name) <= NAME else f"{name[: NAME - 1]}…"
    return (
        f'<g><title>{escape(said_of)}</title><circle class="{tone}" cx="{x:.1f}" cy="{y:.1f}" r="{CIRCLE}"/>'
        f'<text x="{x:.1f}" y="{y - 7:.1f}">{escape(cut)}</text>'
        f'<text class="quiet" x="{x:.1f}" y="{y + 8:.1f}">in {short(came)}</text>'
        f'<text class="quiet" x="{x:.1f}" y="{y + 20:.1f}">out {short(went)}</text></g>'
    )


def matrix(made: Network) -> str:
    """Return the traffic matrix."""
    names = list(made.routers)
    rows: list[list[Cell]] = [[one, *(made.matrix.get((one, other), 0) for other in names)] for one in names]
    caption = "Messages from the router where they came in to the one where they left or found no receiver"
    return table(("from", *(f"to {one}" for one in names)), rows, caption=caption)
