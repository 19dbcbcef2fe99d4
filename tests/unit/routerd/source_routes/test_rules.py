"""Rules that hold for every worker, and what the examples of the specification leave out."""

from collections import deque

import pytest

from routerd.source_routes.address import parse_address, parse_route, show_route
from tests.model.source_routes import bare, wrapped
from tests.model.source_routes.message import Message, State, new_message, reply_to
from tests.model.source_routes.place import Limits, Rules
from tests.model.source_routes.refusal import Reason, RefusedError
from tests.model.source_routes.rules import DEFAULT_RULES, Changing, step
from tests.model.source_routes.workers import (
    Collapse,
    Count,
    Discovery,
    Extend,
    Forward,
    PayloadUnwrap,
    PayloadWrap,
    Proxy,
    Static,
    Tee,
    Unwrap,
    Worker,
    Wrap,
)
from tests.support.values.source_routing import a, m, r, shown

F = a("F")
PASSING: list[Worker] = [
    Forward(address=F),
    Forward(address=F, trace=True),
    Collapse(address=F, strip=Count(1)),
    Changing(address=F, change=bytes.upper),
    PayloadWrap(address=F),
    PayloadUnwrap(address=F),
    Tee(address=F, route=r("audit")),
    Wrap(address=F, route=r("U")),
    Discovery(address=F, route=r("T")),
    Discovery(address=F, route=r("T"), strip=Count(0)),
    Proxy(address=a("P"), inner=F, route=r("R")),
]
ALL = [*PASSING, Static(address=F, route=r("R")), Extend(address=F, route=r("E")), Unwrap(address=F)]
KINDS = [type(worker).__name__ for worker in ALL]


def refused(worker: Worker, message: Message, rules: Rules = DEFAULT_RULES) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        step(worker, message, rules=rules)
    return caught.value


@pytest.mark.parametrize("worker", ALL, ids=KINDS)
def test_a_worker_takes_only_what_is_for_it(worker: Worker) -> None:
    error = refused(worker, m("G X"))
    assert (error.reason, error.condition) == (Reason.NOT_MINE, "amqp:invalid-field")
    assert "begins with G" in str(error)
    empty = refused(worker, m(""))
    assert (empty.reason, empty.condition) == (Reason.EMPTY_ROUTE, "amqp:invalid-field")


@pytest.mark.parametrize("worker", PASSING, ids=KINDS[: len(PASSING)])
def test_a_route_cannot_end_at_a_worker_that_passes_on(worker: Worker) -> None:
    error = refused(worker, m("F"))
    assert (error.reason, error.address) == (Reason.NO_NEXT, "F")


@pytest.mark.parametrize("worker", ALL, ids=KINDS)
def test_the_hop_counter_ends_every_loop(worker: Worker) -> None:
    error = refused(worker, m("F X")._replace(hops=64))
    assert (error.reason, error.address) == (Reason.HOPS, "F")
    assert error.condition == "amqp:resource-limit-exceeded"


def run(workers: list[Worker], message: Message, rules: Rules = DEFAULT_RULES) -> tuple[int, list[str]]:
    """How many steps it takes until nothing moves, and the refusals."""
    by_address = {address: worker for worker in workers for address in worker.addresses}
    waiting, steps, errors = deque([message]), 0, []
    while waiting:
        now = waiting.popleft()
        worker = by_address.get(now.onward[0])
        if worker is None:
            continue
        steps += 1
        assert steps < 100_000
        try:
            waiting.extend(step(worker, now, rules=rules))
        except RefusedError as error:
            errors.append(str(error))
    return steps, errors


@pytest.mark.parametrize(
    ("workers", "route"),
    [
        ([Static(address=F, route=r("F"))], "F X"),
        ([Static(address=F, route=r("G")), Static(address=a("G"), route=r("F"))], "F X"),
        ([Discovery(address=F, route=r("F"), strip=Count(0))], "F X"),
        ([Discovery(address=F, route=r("F F"))], "F X"),
        ([Proxy(address=F, inner=a("I"), route=r("F"))], "F X"),
        ([Static(address=a("S"), route=r("F S")), Wrap(address=F, route=r("U")), Unwrap(address=a("U"))], "S X"),
        (
            [
                Static(address=a("S"), route=r("F S")),
                Wrap(address=F, route=r("U"), form="bare"),
                Unwrap(address=a("U"), form="bare"),
            ],
            "S X",
        ),
    ],
)
def test_loops_are_cut(workers: list[Worker], route: str) -> None:
    steps, errors = run(workers, m(route, "A"))
    assert steps <= 65
    assert len(errors) == 1
    assert "are allowed" in errors[0]


def test_a_static_forwarder_to_itself_ends_after_64_steps() -> None:
    steps, errors = run([Static(address=F, route=r("F"))], m("F", "A"))
    assert steps == 65
    assert errors == ["F: the message has passed 64 workers; 64 are allowed"]


def test_a_route_that_grows_is_cut_by_its_length() -> None:
    _, errors = run([Static(address=F, route=r("F x"))], m("F", "A"))
    assert errors == ["F: the onward route has 33 addresses; 32 are allowed"]


@pytest.mark.parametrize("copy_to", ["F", "F x", "F F x", "F F F F F F F F x"])
def test_copies_of_copies_are_few(copy_to: str) -> None:
    """Without the halved hops two tees would fill the router."""
    steps, _ = run([Tee(address=F, route=r(copy_to))], m("F x", "A"))
    assert steps < 5000


def test_the_limits_of_a_message() -> None:
    trace = Forward(address=F, trace=True)
    full = m("F X", " ".join(["r"] * 64))
    assert refused(trace, full).reason is Reason.RETURN
    assert step(Forward(address=F), full)
    assert refused(Static(address=F, route=r("R Q")), m("F " + "x " * 31)).reason is Reason.ONWARD
    long_name = Forward(address=F, trace=True, trace_as=a("n" * 256))
    assert refused(long_name, m("F X")).reason is Reason.ADDRESS_OCTETS
    octets = m("F X", " ".join(["r" * 255] * 16))
    assert step(trace, octets)
    assert refused(trace, octets._replace(returning=octets.returning + r("r" * 20))).reason is Reason.ROUTE_OCTETS
    small = Rules(Limits(hops=1))
    (once,) = step(trace, m("F F X"), rules=small)
    assert refused(trace, once, small).reason is Reason.HOPS


def test_wrappers_nest_8_deep() -> None:
    wrap, message = Wrap(address=F, route=r("F F")), m("F " * 9 + "X", "A")
    inner = message
    for _ in range(8):
        (message,) = step(wrap, message)
    assert message.nesting == 8
    error = refused(wrap, message)
    assert (error.reason, error.condition) == (Reason.NESTING, "amqp:resource-limit-exceeded")
    unwrap = Unwrap(address=F)
    for _ in range(8):
        (message,) = step(unwrap, message._replace(onward=r("F")))
    assert (shown(message), message.nesting) == ("F F F F F F F F X / A"[-len(shown(message)) :], 0)
    assert message.payload == inner.payload


@pytest.mark.parametrize("form", ["amqp", "bare"])
@pytest.mark.parametrize("trace", [True, False])
def test_unwrapping_a_wrapped_message_is_forwarding_it(form: wrapped.Form, trace: bool) -> None:
    message = m("F X", "A")
    (outside,) = step(Wrap(address=F, route=r("K U"), returning=r("s"), form=form), message)
    assert (outside.onward, outside.returning, outside.nesting) == (r("K U"), r("s"), 1)
    # Whatever the way has made of the outer return route and metadata counts for nothing inside.
    arrived = outside._replace(onward=r("U"), returning=r("evil"), meta={"k": "evil"}, state=State.PARTIAL)
    (result,) = step(Unwrap(address=a("U"), trace=trace, form=form), arrived)
    (forwarded,) = step(Forward(address=F), message)
    expected = forwarded._replace(returning=r("U A")) if trace else forwarded
    assert result._replace(hops=0) == expected._replace(hops=0)
    assert result.hops == 2


def test_an_unwrapper_is_where_the_outer_route_ends() -> None:
    (outside,) = step(Wrap(address=F, route=r("U")), m("F X"))
    error = refused(Unwrap(address=a("U")), outside._replace(onward=r("U V")))
    assert (error.reason, error.address) == (Reason.SURPLUS, "U")


@pytest.mark.parametrize("form", ["amqp", "bare"])
def test_what_cannot_be_unwrapped_is_refused_at_its_worker(form: wrapped.Form) -> None:
    error = refused(Unwrap(address=F, form=form), m("F", "A", b"rubbish"))
    assert (error.reason, error.condition, error.address) == (Reason.BAD_ENCODING, "amqp:decode-error", "F")
    assert refused(PayloadUnwrap(address=F), m("F X", "", b"\x05")).reason is Reason.BAD_ENCODING


def test_a_wrapped_message_without_a_route_is_refused() -> None:
    payload = bare.encode(m("", "A"))
    assert refused(Unwrap(address=F, form="bare"), m("F", "", payload)).reason is Reason.NO_NEXT


def test_payload_wrapper_and_unwrapper() -> None:
    meta = {"index": b"\x01", "a": b""}
    (message,) = step(PayloadWrap(address=F, route=r("U"), meta=meta), m("F X", "A", b"\x00\xff"))
    assert shown(message) == "U X / A"
    assert message.payload == bytes.fromhex("02 0161 00 05696e646578 0101 02 00ff")
    (message,) = step(PayloadUnwrap(address=a("U"), trace=True), message)
    assert (shown(message), message.payload) == ("X / U A", b"\x00\xff")


def test_a_transform_is_the_only_one_that_changes_the_payload() -> None:
    (message,) = step(Changing(address=F, change=bytes.upper), m("F X", "A"))
    assert (shown(message), message.payload) == ("X / A", b"PING")

    def fails(_: bytes) -> bytes:
        raise KeyError("no such thing")

    error = refused(Changing(address=F, change=fails), m("F X"))
    assert (error.reason, error.condition) == (Reason.TRANSFORM, "amqp:not-allowed")
    assert "KeyError: 'no such thing'" in error.detail


def test_a_proxy_stands_for_a_route_in_both_directions() -> None:
    proxy = Proxy(address=a("P"), inner=a("Pi"), route=r("R"))
    (there,) = step(proxy, m("P X", "A"))
    assert shown(there) == "R X / Pi A"
    (back,) = step(proxy, m("Pi A", "R X"))
    assert shown(back) == "A / P X"
    (empty,) = step(proxy, m("Pi A", ""))
    assert (shown(empty), empty.state) == ("A / P", State.NONE)


def test_a_tee_forwards_and_copies() -> None:
    forwarded, copy = step(Tee(address=F, route=r("audit log")), m("F X", "A")._replace(meta={"k": "v"}))
    assert (shown(forwarded), forwarded.meta) == ("X / F A", {"k": "v"})
    assert (shown(copy), copy.payload, copy.state, dict(copy.meta)) == ("audit log /", b"ping", State.NONE, {})


def test_a_change_of_scope_that_nobody_traced_is_remembered() -> None:
    gate = Static(address=F, route=r("R"), crosses=True)
    (message,) = step(gate, m("F", "A"))
    assert message.state is State.PARTIAL
    with pytest.raises(RefusedError, match="neither traced nor wrapped") as error:
        reply_to(message, a("R"), b"")
    assert error.value.condition == "amqp:precondition-failed"
    assert shown(reply_to(message, a("R"), b"", any_state=True)) == "A / R"
    (traced,) = step(Forward(address=F, trace=True, crosses=True), m("F X", "A"))
    assert traced.state is State.COMPLETE
    (none,) = step(gate, m("F"))
    assert none.state is State.NONE


def test_a_reply_needs_a_return_route_that_the_sender_gave() -> None:
    with pytest.raises(RefusedError, match="no return route"):
        reply_to(m("B"), a("B"), b"", any_state=True)
    (message,) = step(Forward(address=F, trace=True), m("F B"))
    with pytest.raises(RefusedError, match="the first sender gave none"):
        reply_to(message, a("B"), b"")


@pytest.mark.parametrize(
    ("text", "shown_as"),
    [("", ""), ("D1=>B2", "D1=>B2"), (" D1 => 64#B2 ", "D1=>64#B2"), ("0#D1", "D1"), ("255#x", "255#x")],
)
def test_routes_as_text(text: str, shown_as: str) -> None:
    assert show_route(parse_route(text)) == shown_as


@pytest.mark.parametrize("text", ["=>", "A=>", "256#a", "-1#a", "x#a", "1#2#a", "1#", "٣#a", "0001#a"])
def test_routes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"^address "):
        parse_route(text)


def test_addresses_that_are_no_text_are_shown() -> None:
    assert str(new_message((parse_address("x")._replace(value=b"\xff\n"),), (), b"").first) == "\\xff\\n"
