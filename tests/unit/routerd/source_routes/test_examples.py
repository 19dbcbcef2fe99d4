"""Every example of the specification, step by step: each worker makes of one row of its table the next.

Rows are those of `source_route_vectors.json`, by case and number.
"""

import pytest

from tests.model.source_routes.message import Message, State, reply_to
from tests.model.source_routes.rules import step
from tests.model.source_routes.workers import (
    Collapse,
    Count,
    Discovery,
    Extend,
    Forward,
    KeepScopes,
    Static,
    ToMarker,
    Unwrap,
    Worker,
    Wrap,
)
from tests.support.values.source_routing import VECTORS, a, m, r, shown

CASES = {case["case"].split()[0]: case["steps"] for case in VECTORS["route_cases"]}
CLOUD = frozenset({"uplink:cloud"})
CLIENT = frozenset({"local"})
SCOPES_1_2 = KeepScopes(frozenset({"1", "2"}))


def tracing(name: str, trace_as: str | None = None) -> Forward:
    return Forward(address=a(name), trace=True, trace_as=a(trace_as) if trace_as else None)


def forward(name: str) -> Forward:
    return Forward(address=a(name))


def discovery(name: str, route: str, strip: Count | KeepScopes | None = None) -> Discovery:
    return Discovery(address=a(name), route=r(route), uplinks=CLOUD, strip=strip, form="bare")


def collapse(strip: Count | KeepScopes) -> Collapse:
    return Collapse(address=a("C2"), strip=strip)


D1, D2 = discovery("D1", "T13 F3"), discovery("D2", "T24 F4")
D1S, D2S = discovery("D1", "T13 F3", Count(0)), discovery("D2", "T24 F4", Count(0))
B1_WRAPS = Wrap(address=a("B1"), route=r("X3 U2"), form="bare")
F3, F4 = Static(address=a("F3"), route=r("D2")), Static(address=a("F4"), route=r("D1"))

# Case, row before, the worker and whom it has the message from, row after.
STEPS: list[tuple[str, int, Worker, frozenset[str], int]] = [
    *(("S1", n, tracing(name), CLIENT, n + 1) for n, name in enumerate(["A1", "B1", "C2"])),
    *(("S1", n, tracing(name), CLIENT, n + 1) for n, name in ((4, "C2"), (5, "B1"), (6, "A1"))),
    *(("S1n", n, forward(name), CLIENT, n + 1) for n, name in enumerate(["A1", "B1", "C2"])),
    ("S2", 0, B1_WRAPS, CLIENT, 1),
    ("S2", 1, tracing("X3"), CLIENT, 2),
    ("S2", 2, Unwrap(address=a("U2"), trace=True, form="bare"), CLIENT, 3),
    ("S2", 3, tracing("C2"), CLIENT, 4),
    ("S3", 0, Extend(address=a("B1"), route=r("E3 F4")), CLIENT, 1),
    ("S3", 2, tracing("C2"), CLIENT, 3),
    ("S3", 4, collapse(Count(2)), CLIENT, 5),
    ("S3", 4, collapse(SCOPES_1_2), CLIENT, 6),
    ("D0", 0, forward("T13"), CLIENT, 1),
    ("D0", 1, forward("F3"), CLIENT, 2),
    ("D1", 0, D1S, CLIENT, 1),
    ("D1", 1, forward("T13"), CLIENT, 2),
    ("D1", 2, F3, CLIENT, 3),
    ("D1", 3, D2S, CLOUD, 4),
    ("D1", 5, D2S, CLIENT, 6),
    ("D1", 7, D1S, CLOUD, 8),
    ("D2", 0, D1S, CLIENT, 1),
    ("D2", 2, discovery("D2", "T24 F4", Count(2)), CLOUD, 3),
    ("D2", 2, discovery("D2", "T24 F4", SCOPES_1_2), CLOUD, 4),
    ("D2", 2, discovery("D2", "T24 F4", Count(0)), CLOUD, 5),
    ("D2", 2, discovery("D2", "T24 F4", Count(3)), CLOUD, 6),
    ("D3", 0, D1, CLIENT, 1),
    ("D3", 2, D2, CLOUD, 3),
    ("D3", 4, D2, CLIENT, 5),
    ("D3", 6, D1, CLOUD, 7),
    ("W1", 0, forward("F"), CLIENT, 1),
    ("W2", 0, tracing("F"), CLIENT, 1),
    ("W4", 0, Static(address=a("F"), route=r("R Q")), CLIENT, 1),
    ("W7", 0, Wrap(address=a("C1"), route=r("C2i"), form="bare"), CLIENT, 1),
    ("W7", 1, Unwrap(address=a("C2i"), trace=True, trace_as=a("C2"), form="bare"), CLIENT, 2),
]
REPLIES = [("S1", 3, "D2", 4), ("D0", 2, "B2", 4), ("D1", 4, "B2", 5), ("D3", 3, "B2", 4)]
# Rows that no single worker makes of the one before: several hops in one row, or what somebody knows.
CHAINS = [
    ("D1", 6, [forward("T24"), F4], 7),
    ("D2", 1, [tracing("T13", "T23"), Static(address=a("F3"), route=r("D2"))], None),
    ("S3", 1, [forward("E3"), forward("F4")], 2),
    ("S3", 1, [tracing("E3"), tracing("F4")], 4),
]
GIVEN = {("S3", 0), ("D0", 3), ("D2", 2), ("D3", 2), ("D3", 6)}  # what the clouds of the examples have made


def row(case: str, number: int) -> Message:
    given = CASES[case][number]
    return m(" ".join(given["onward"]), " ".join(given["return"]), bytes.fromhex(given["payload_hex"]))


def seen(message: Message) -> tuple[object, ...]:
    return message.onward, message.returning, message.payload


@pytest.mark.parametrize(
    ("case", "before", "worker", "source", "after"),
    STEPS,
    ids=[f"{case} {CASES[case][after]['step']}" for case, _, _, _, after in STEPS],
)
def test_a_step(case: str, before: int, worker: Worker, source: frozenset[str], after: int) -> None:
    (result,) = step(worker, row(case, before), source)
    assert seen(result) == seen(row(case, after))


@pytest.mark.parametrize(("case", "before", "me", "after"), REPLIES, ids=str)
def test_a_reply(case: str, before: int, me: str, after: int) -> None:
    payload = row(case, after).payload
    assert seen(reply_to(row(case, before), a(me), payload)) == seen(row(case, after))


@pytest.mark.parametrize(("case", "before", "workers", "after"), CHAINS, ids=lambda value: str(value)[:20])
def test_several_hops(case: str, before: int, workers: list[Worker], after: int | None) -> None:
    message = row(case, before)
    for worker in workers:
        (message,) = step(worker, message)
    if after is None:  # the specification's (T23, F3) is loose: a forwarder does not trace
        assert shown(message) == "D2 B2 / T23 A1"
    else:
        assert seen(message) == seen(row(case, after))


def test_every_row_is_made_or_given() -> None:
    rows = {(case, n) for case, steps in CASES.items() for n in range(len(steps))}
    made = {(case, after) for case, _, _, _, after in STEPS} | {(case, after) for case, _, _, after in REPLIES}
    made |= {(case, after) for case, _, _, after in CHAINS if after is not None}
    starts = {(case, 0) for case in CASES}
    assert rows - made - starts - GIVEN == set()


def test_onward_and_return_run_between_the_same_two() -> None:
    """[A, B, C] and [D, E, F]: from F to C."""
    message = m("A B C", "D E F")
    for name in "AB":
        (message,) = step(forward(name), message)
    assert shown(message) == "C / D E F"
    assert shown(reply_to(message, a("C"), b"")) == "D E F / C"


def test_two_halves_of_one_transport() -> None:
    """S1g: the near half takes itself off, the far half writes itself; together they are one worker."""
    there, back = tracing("B1", "C2"), tracing("C2", "B1")
    message = m("A1 B1 D2", "S1")
    rows = []
    for worker in (tracing("A1"), there):
        (message,) = step(worker, message)
        rows.append(shown(message))
    message = reply_to(message, a("D2"), b"")
    rows.append(shown(message))
    for worker in (back, tracing("A1")):
        (message,) = step(worker, message)
        rows.append(shown(message))
    assert rows == ["B1 D2 / A1 S1", "D2 / C2 A1 S1", "C2 A1 S1 / D2", "A1 S1 / B1 D2", "S1 / A1 B1 D2"]


def test_a_message_that_was_wrapped_is_answered_the_same_way() -> None:
    """S2 back: U2 wraps to B1, B1 unwraps and traces itself, and A1 sees its own route."""
    message = reply_to(row("S2", 4), a("D2"), b"pong")
    there = [
        tracing("C2"),
        Wrap(address=a("U2"), route=r("Y3 B1"), form="bare"),
        tracing("Y3"),
        Unwrap(address=a("B1"), trace=True, form="bare"),
    ]
    for worker in there:
        (message,) = step(worker, message)
    assert shown(message) == "A1 / B1 C2 D2"
    assert message.payload == b"pong"


@pytest.mark.parametrize(
    ("count", "returning", "left", "state"),
    [
        (0, "T23 F3 A1", "D2 T23 F3 A1", State.COMPLETE),
        (2, "T23 F3 A1", "D2 A1", State.COMPLETE),
        (3, "T23 F3 A1", "D2", State.PARTIAL),
        (9, "T23 F3 A1", "D2", State.PARTIAL),
        (2, "", "D2", State.NONE),
    ],
)
def test_cutting_off_too_much_leaves_a_return_that_is_known_to_be_unusable(
    count: int, returning: str, left: str, state: State
) -> None:
    (result,) = step(discovery("D2", "T24 F4", Count(count)), m("D2 B2", returning), CLOUD)
    assert (result.returning, result.state) == (r(left), state)


def test_a_marker_shows_where_the_cloud_ends() -> None:
    out = Discovery(address=a("D1"), route=r("T13 F3"), strip=ToMarker())
    home = Discovery(address=a("D2"), inner=a("D2.in"), route=r("T24 F4"), strip=ToMarker())
    (message,) = step(out, m("D1 B2", "A1"))
    for worker in (tracing("T13", "T23"), Static(address=a("F3"), route=r("D2.in"))):
        (message,) = step(worker, message)
    (message,) = step(home, message)
    assert (shown(message), message.state) == ("B2 / D2 A1", State.COMPLETE)
    (lost,) = step(home, m("D2.in B2", "T23 A1"))
    assert (shown(lost), lost.state) == ("B2 / D2 T23 A1", State.PARTIAL)


def test_extending_with_a_marker() -> None:
    message = m("B1 C2 D2", "A1")
    extend = Extend(address=a("B1"), route=r("E3 F4"), marker=True)
    for worker in (extend, tracing("E3"), tracing("F4"), Collapse(address=a("C2"), strip=ToMarker())):
        (message,) = step(worker, message)
    assert shown(message) == "D2 / C2 B1 A1"


def test_an_address_without_a_scope_ends_the_cut() -> None:
    """Nobody knows whose it is, so it stays."""
    (message,) = step(collapse(SCOPES_1_2), m("C2 D2", "F4 relay E3 A1"))
    assert shown(message) == "D2 / C2 relay E3 A1"


def test_direction_is_by_ingress_and_never_by_content() -> None:
    """A client that sends what looks like a wrapped message does not get it unwrapped."""
    wrapped = row("D3", 2)
    (inward,) = step(D2, wrapped._replace(onward=r("D2")), CLOUD)
    assert shown(inward) == "B2 / D2 A1"
    (outward,) = step(D2, wrapped._replace(onward=r("D2 A1")), CLIENT)
    assert (outward.onward, outward.returning) == (r("T24 F4"), ())
    inner = Discovery(address=a("D2"), inner=a("D2.in"), route=r("T24 F4"), form="bare")
    (by_address,) = step(inner, wrapped._replace(onward=r("D2.in")), CLIENT)
    assert seen(by_address) == seen(inward)
