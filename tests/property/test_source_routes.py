"""Random chains of workers, random messages, random octets: what must hold for every one of them."""

import string

from hypothesis import given
from hypothesis import strategies as st

from routerd.source_routes.address import Address, Route, local, parse_route, show_route
from tests.model import ockam_cbor as cbor
from tests.model.ockam_framing import BEFORE, TODAY, Framing, Unframer, frame
from tests.model.source_routes import bare, wrapped
from tests.model.source_routes.annotations import from_annotations, to_annotations
from tests.model.source_routes.message import DEFAULT_LIMITS, Message, State, check_limits, new_message, reply_to
from tests.model.source_routes.place import Limits
from tests.model.source_routes.refusal import RefusedError
from tests.model.source_routes.rules import step
from tests.model.source_routes.workers import (
    Count,
    Discovery,
    Forward,
    Proxy,
    Static,
    Strip,
    ToMarker,
    Unwrap,
    Worker,
    Wrap,
)

ADDRESSES = st.builds(Address, st.integers(0, 255), st.binary(min_size=1, max_size=20))
ROUTES = st.lists(ADDRESSES, max_size=8).map(tuple)
PAYLOADS = st.binary(max_size=300)
MESSAGES = st.builds(new_message, ROUTES, ROUTES, PAYLOADS, st.none() | st.text(max_size=40))
META = st.dictionaries(
    st.text(string.ascii_letters, min_size=1, max_size=8),
    st.recursive(
        st.text(max_size=8) | st.binary(max_size=8) | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1),
        lambda values: st.lists(values, max_size=3).map(tuple),
        max_leaves=4,
    ),
    max_size=6,
)


@given(MESSAGES)
def test_bare_gives_back_what_it_was_given(message):
    assert bare.decode(bare.encode(message)) == message
    if message.tracing is None:
        assert bare.decode(bare.encode(message, version=2)) == message


@given(MESSAGES)
def test_cbor_gives_back_what_it_was_given(message):
    assert cbor.decode(cbor.encode(message)) == message


@given(MESSAGES.filter(lambda one: one.onward), META, st.sampled_from(State), st.integers(0, 64))
def test_annotations_give_back_what_they_were_given(message, meta, state, hops):
    message = message._replace(tracing=None, meta=meta, state=state, hops=hops)
    assert from_annotations(to_annotations(message), message.payload) == message
    assert wrapped.decode(wrapped.encode(message, "amqp"), "amqp", DEFAULT_LIMITS) == message


@given(st.lists(MESSAGES, max_size=5), st.sampled_from([TODAY, BEFORE]), st.data())
def test_pieces_of_a_connection_make_no_difference(messages, framing: Framing, data):
    stream = framing.preamble + b"".join(frame(one, framing) for one in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    unframer = Unframer(framing)
    found = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += unframer.feed(stream[begin:end])
    assert found == messages


@given(st.dictionaries(st.text(max_size=10), st.binary(max_size=10), max_size=10))
def test_equal_maps_are_equal_octets(entries):
    octets = bare.mapping(entries)
    assert octets == bare.mapping(dict(reversed(entries.items())))
    assert bare.Reader(octets).mapping() == entries


NAMES = st.from_regex(r"[A-Za-z0-9_./-]{1,12}", fullmatch=True)


@given(st.lists(st.tuples(st.integers(0, 255), NAMES), max_size=8))
def test_routes_as_text(parts):
    route = tuple(Address(kind, name.encode()) for kind, name in parts)
    assert parse_route(show_route(route)) == route


def outcome(read, given):
    try:
        return read(given)
    except RefusedError as refused:
        return refused


@given(st.text(max_size=40))
def test_any_text_is_a_route_or_refused(text):
    try:
        found = parse_route(text)
    except ValueError:
        return
    assert all(address.value and 0 <= address.type <= 255 for address in found)


@given(st.binary(max_size=200), st.sampled_from([bare.decode, cbor.decode]))
def test_any_octets_are_one_message_or_refused(octets, decode):
    """And what is a message has no other octets: encoding it gives them back."""
    found = outcome(decode, octets)
    if isinstance(found, RefusedError):
        assert found.detail
    elif decode is bare.decode:
        assert bare.encode(found, version=octets[0]) == octets
    else:
        assert cbor.encode(found) in (octets, b"\x84" + octets[1:] + b"\xf6")


Link = list[Worker]  # the workers that stand for one address of a route, as a message there meets them
LINKS = st.lists(st.sampled_from(["trace", "gate", "proxy", "wrap", "discovery", "strip", "marker"]), max_size=6)


def chain(kinds: list[str]) -> tuple[Route, list[Worker], list[Worker]]:
    """The onward route through such workers, what a message meets on it, and what its reply meets."""
    onward: list[Address] = []
    there: list[Worker] = []
    back: list[Worker] = []
    for number, kind in enumerate(kinds):
        near, far = local(f"n{number}"), local(f"f{number}")
        onward.append(near)
        there += link(kind, near, far, local(f"c{number}"))
        back = link(kind, far, near, local(f"d{number}")) + back
        if kind in ("trace", "proxy"):  # one worker that has the same name in both directions
            back = link(kind, near, near, local(f"c{number}"), back=True) + back[1 if kind == "trace" else 2 :]
    return tuple(onward), there, back


def link(kind: str, near: Address, far: Address, cloud: Address, back: bool = False) -> Link:
    """From the side of `near` to that of `far`, which is what a reply begins with."""
    if kind == "trace":
        return [Forward(address=near, trace=True)]
    if kind == "gate":
        return [Forward(address=near, trace=True, trace_as=far, crosses=True)]
    if kind == "proxy":
        inner = local(near.value.decode() + ".in")
        proxy = Proxy(address=near, route=(cloud,), inner=inner)
        service = Forward(address=cloud, trace=True)
        return [service, proxy] if back else [proxy, service]
    if kind == "wrap":
        return [
            Wrap(address=near, route=(cloud, local("u"))),
            Forward(address=cloud, trace=True),
            Unwrap(address=local("u"), trace=True, trace_as=far),
        ]
    strip: Strip | None = {"discovery": None, "strip": Count(1), "marker": ToMarker()}[kind]
    home = local(far.value.decode() + ".in")
    return [
        Discovery(address=near, route=(cloud, home), strip=strip),
        Forward(address=cloud, trace=True),
        Discovery(address=far, inner=home, route=(cloud,), strip=strip),
    ]


def taken(message: Message, workers: list[Worker]) -> Message:
    for worker in workers:
        (message,) = step(worker, message)
    return message


ROOMY = Limits(hops=255)


@given(LINKS, PAYLOADS)
def test_the_source_sees_its_own_route_as_the_return_of_the_reply(kinds, payload):
    """The backtrace property; the payload is the same octets everywhere."""
    me, end = local("me"), local("end")
    onward, there, back = chain(kinds)
    arrived = taken(new_message((*onward, end), (me,), payload), there)
    assert (arrived.onward, arrived.payload, arrived.state) == ((end,), payload, State.COMPLETE)
    answer = taken(reply_to(arrived, end, payload), back)
    assert (answer.onward, answer.returning, answer.payload) == ((me,), (*onward, end), payload)
    assert (answer.state, answer.nesting) == (State.COMPLETE, 0)


@given(MESSAGES, ROUTES.filter(bool))
def test_how_routes_grow(message, route):
    """Forwarding: -1, 0; tracing: -1, +1; static: -1 and its route, 0. The payload stays as it is."""
    me = local("me")
    message = message._replace(onward=(me, local("next"), *message.onward))
    for worker, onward, returning in (
        (Forward(address=me), -1, 0),
        (Forward(address=me, trace=True), -1, 1),
        (Static(address=me, route=route), len(route) - 1, 0),
    ):
        (result,) = step(worker, message)
        assert len(result.onward) == len(message.onward) + onward
        assert len(result.returning) == len(message.returning) + returning
        assert (result.payload, result.tracing) == (message.payload, message.tracing)
        assert result.hops == message.hops + 1
        assert check_limits(result, ROOMY) is result
