"""States and settlement by DISPOSITION, in both directions (AMQP 1.0 parts 2.6.12 and 2.7.6)."""

from typing import Any

import psutil
import pytest

from tests.support.beds.conformance import Connect
from tests.support.clients.frame_client import FrameClient, disposition, flow, ids_of, message, transfer
from tests.support.clients.octets import (
    ACCEPTED,
    ATTACH,
    DETACH,
    DISPOSITION,
    FLOW,
    MODIFIED,
    RECEIVED,
    REJECTED,
    RELEASED,
    TRANSFER,
    WRAP,
    Described,
    Frame,
    Symbol,
    Uint,
    Ulong,
    said,
    state,
    trimmed,
)
from tests.support.running import RunningRouter, roles

PLENTY = 100
ERROR = 0x1D
SECOND = 1


class Pair:
    """A sender and a receiver with credit on one address, each on a connection of its own."""

    def __init__(self, connect: Connect, name: str, **link: Any) -> None:
        self.at, self.to = connect(), connect()
        self.at.receiver(name, credit=PLENTY, **link)
        self.to.sender(name)

    def deliver(self, number: int) -> list[Frame]:
        """So many messages with ids from zero, which arrive."""
        self.to.write(*(transfer(one, message(str(one))) for one in range(number)))
        return self.at.take(number)


@pytest.fixture
def pair(connect: Connect, name: str) -> Pair:
    return Pair(connect, name)


def told(client: FrameClient) -> list[Frame]:
    """DISPOSITIONs that have come by now."""
    return [got for got in client.round_trip() if got.code == DISPOSITION]


# ---- ranges ----


def test_one_disposition_settles_a_range(pair: Pair) -> None:
    """2.7.6: first and last included."""
    pair.deliver(10)
    pair.at.write(disposition(2, 7, state=state(ACCEPTED)))
    assert pair.to.settled(2, 7) == [state(ACCEPTED)] * 6
    pair.at.write(disposition(0, 1, state=state(RELEASED)), disposition(8, 9, state=state(RELEASED)))
    assert pair.to.settled(0, 1) == [state(RELEASED)] * 2


def test_without_last_it_is_one(pair: Pair) -> None:
    """2.7.6."""
    pair.deliver(3)
    pair.at.write(disposition(1, state=state(ACCEPTED)))
    assert pair.to.settled(1, 1) == [state(ACCEPTED)]
    pair.at.round_trip()
    assert told(pair.to) == []


def test_a_range_covers_deliveries_of_several_links(connect: Connect, name: str) -> None:
    """2.7.6: DISPOSITION names no link."""
    at, to = connect(), connect()
    for handle in range(3):
        at.receiver(f"{name}.{handle}", handle, credit=PLENTY)
        to.sender(f"{name}.{handle}", handle)
    for number in range(9):
        to.write(transfer(number, handle=number % 3))
        at.take(1, number % 3)
    at.write(disposition(0, 8, state=state(ACCEPTED)))
    assert to.settled(0, 8) == [state(ACCEPTED)] * 9


def test_outcomes_come_in_any_order(pair: Pair) -> None:
    """2.6.12: each for its own delivery."""
    outcomes = {4: ACCEPTED, 0: RELEASED, 2: MODIFIED, 1: ACCEPTED, 3: REJECTED}
    pair.deliver(5)
    pair.at.write(*(disposition(number, state=state(code)) for number, code in outcomes.items()))
    states = pair.to.settled(0, 4)
    assert [one.descriptor for one in states] == [outcomes[number] for number in range(5)]


def test_what_the_router_says_covers_no_delivery_that_has_no_outcome(pair: Pair) -> None:
    """2.7.6: a range has no room for others."""
    pair.deliver(20)
    done = [0, 1, 2, 5, 7, 8, 9, 10, 19]
    pair.at.write(*(disposition(number, state=state(ACCEPTED)) for number in done))
    covered: list[int] = []
    while len(covered) < len(done):
        got = pair.to.expect(DISPOSITION, 0)
        assert got["receiver"]
        assert got["settled"]
        covered += ids_of(got)
    assert sorted(covered) == done
    pair.at.write(disposition(3, 4, state=state(ACCEPTED)))
    pair.to.settled(3, 4)


HUGE = {"two thousand million ids": (0, 2**31 - 1), "around zero": (WRAP - 2**29, 2**29), "ahead": (2**30, 2**31)}


@pytest.mark.parametrize(("first", "last"), HUGE.values(), ids=HUGE)
def test_ids_that_were_never_sent_cost_nothing(pair: Pair, router: RunningRouter, first: int, last: int) -> None:
    """2.7.6: a range may name more than there is; the router does not walk it."""
    pair.deliver(3)
    workers = [process for role, process in roles(router.process.pid).items() if role.startswith("worker")]

    def spent() -> float:
        return float(sum(sum(process.cpu_times()[:2]) for process in workers if psutil.pid_exists(process.pid)))

    before = spent()
    for _ in range(100):
        pair.at.write(disposition(first, last, state=state(ACCEPTED)), disposition(first, last, receiver=False))
    pair.at.round_trip()
    assert spent() - before < 2
    if first != 2**30:
        assert pair.to.settled(0, 2) == [state(ACCEPTED)] * 3


def test_what_is_settled_already_is_left_alone(pair: Pair) -> None:
    """2.7.6: a second word about it, or one about what never was, changes nothing."""
    pair.deliver(3)
    pair.at.write(disposition(1, state=state(ACCEPTED)))
    assert pair.to.settled(1, 1) == [state(ACCEPTED)]
    pair.at.write(disposition(1, state=state(REJECTED)), disposition(0, 50, state=state(RELEASED)))
    pair.at.write(disposition(0, 2, state=state(MODIFIED)))
    seen: dict[int, Any] = {}
    while set(seen) != {0, 2}:
        got = pair.to.expect(DISPOSITION, 0)
        ids = ids_of(got)
        assert not set(ids) & set(seen)
        seen |= dict.fromkeys(ids, got["state"])
    assert seen == {0: state(RELEASED), 2: state(RELEASED)}


def test_a_disposition_of_the_other_role_is_about_the_other_direction(pair: Pair) -> None:
    """2.7.6: the receiver's deliveries are not touched by what it says as a sender."""
    pair.deliver(2)
    pair.at.write(disposition(0, 1, receiver=False, state=state(ACCEPTED)))
    pair.at.round_trip()
    assert told(pair.to) == []
    pair.at.write(disposition(0, 1, state=state(RELEASED)))
    assert pair.to.settled(0, 1) == [state(RELEASED)] * 2


# ---- settlement in its three ways ----


def test_the_receiver_settles_first(pair: Pair) -> None:
    """2.6.12, at least once: with the outcome, and nothing comes after."""
    pair.deliver(1)
    pair.at.write(disposition(0, state=state(ACCEPTED)))
    assert pair.to.settled(0, 0) == [state(ACCEPTED)]
    pair.to.round_trip()
    assert told(pair.at) == []


@pytest.mark.parametrize("final", [None, state(ACCEPTED)], ids=["without state", "with state"])
def test_the_receiver_settles_second(connect: Connect, name: str, final: Any) -> None:
    """2.6.12, exactly once: the outcome unsettled, the sender's settlement in the role of a sender."""
    pair = Pair(connect, name, rcv_mode=SECOND)
    assert pair.at.passed == []
    pair.deliver(3)
    pair.at.write(disposition(0, 2, settled=False, state=state(ACCEPTED)))
    seen: set[int] = set()
    while seen != {0, 1, 2}:
        got = pair.to.expect(DISPOSITION, 0, receiver=True)
        assert not got["settled"]
        assert got["state"] == state(ACCEPTED)
        seen |= set(ids_of(got))
    pair.to.round_trip()
    assert told(pair.at) == [], "nobody settles for the sender"
    pair.to.write(disposition(0, 2, receiver=False, state=final))
    settled: set[int] = set()
    while settled != {0, 1, 2}:
        got = pair.at.expect(DISPOSITION, 0, receiver=False)
        assert got["settled"]
        settled |= set(ids_of(got))
    pair.at.write(disposition(0, 2, state=state(ACCEPTED)))
    pair.to.write(transfer(3))
    pair.at.take(1)


def test_rcv_settle_mode_is_answered_in_kind(connect: Connect, name: str) -> None:
    """2.7.3: the router's ATTACH says the mode that is in use."""
    at = connect()
    assert at.receiver(name, 0, rcv_mode=SECOND)["rcv_mode"] == SECOND
    assert at.receiver(name, 1)["rcv_mode"] in (None, 0)


@pytest.mark.parametrize("mode", [None, 0], ids=["default", "first"])
def test_a_sender_may_settle_before_it_hears(pair: Pair, mode: int | None) -> None:
    """2.6.12: it forgets; the receiver is told, and its own word comes too late."""
    pair.deliver(2)
    pair.to.write(disposition(0, 1, receiver=False))
    settled: set[int] = set()
    while settled != {0, 1}:
        got = pair.at.expect(DISPOSITION, 0, receiver=False)
        assert got["settled"]
        settled |= set(ids_of(got))
    pair.at.write(disposition(0, 1, state=state(REJECTED)))
    pair.at.round_trip()
    assert told(pair.to) == []


def test_settled_without_a_state_stays_without(pair: Pair) -> None:
    """2.7.6: nobody invents an outcome."""
    pair.deliver(1)
    pair.at.write(disposition(0))
    assert pair.to.settled(0, 0) == [None]


# ---- states ----

LONG = "d" * 3000
STATES = {
    "accepted": state(ACCEPTED),
    "rejected": state(REJECTED),
    "rejected with error": state(
        REJECTED, Described(Ulong(ERROR), [Symbol("app:no"), "why", {Symbol("line"): Ulong(7)}])
    ),
    "rejected at length": state(REJECTED, Described(Ulong(ERROR), [Symbol("app:no"), LONG])),
    "released": state(RELEASED),
    "modified": state(MODIFIED),
    "modified with annotations": state(MODIFIED, True, False, {Symbol("x-opt-a"): "b"}),
    "modified at length": state(MODIFIED, False, True, {Symbol("x-opt-a"): LONG}),
    "transactional": state(0x34, b"txn", Described(Ulong(ACCEPTED), [])),
    "declared": state(0x33, b"txn"),
    "of nobody's": state(0x29A, "text", [None, True], {Symbol("a"): b"b"}),
    "of nobody's, at length": state(0x29A, LONG),
    "of nobody's, with a long number": state(0x1234_5678_9ABC_DEF0, "text"),
    "by symbol": Described(Symbol("com.example:done:list"), ["text"]),
}


@pytest.mark.parametrize("outcome", STATES.values(), ids=STATES)
def test_an_outcome_is_passed_on_as_it_is(pair: Pair, outcome: Described) -> None:
    """2.7.6, 3.4: also those that the router does not know, and long ones."""
    pair.deliver(1)
    pair.at.write(disposition(0, state=outcome))
    (got,) = pair.to.settled(0, 0)
    assert trimmed(got) == trimmed(outcome)


INTERIM = {"received": state(RECEIVED, Uint(0), Ulong(5)), "other": state(0x29A, b"on its way")}


@pytest.mark.parametrize("interim", INTERIM.values(), ids=INTERIM)
def test_a_state_that_is_no_outcome_is_passed_on_before_it(pair: Pair, interim: Described) -> None:
    """2.6.12: it settles nothing."""
    pair.deliver(1)
    pair.at.write(disposition(0, settled=False, state=interim))
    got = pair.to.expect(DISPOSITION, 0)
    assert got["state"] == interim
    assert not got["settled"]
    pair.at.write(disposition(0, state=state(ACCEPTED)))
    assert pair.to.settled(0, 0) == [state(ACCEPTED)]


def test_a_sender_says_states_of_its_own(pair: Pair) -> None:
    """2.6.12: by DISPOSITION, also before the last of the message has come."""
    thing, later = state(0x29A, b"now"), state(0x29B, b"then")
    pair.to.write(transfer(0))
    pair.at.take(1)
    pair.to.write(disposition(0, receiver=False, settled=False, state=thing))
    assert pair.at.expect(DISPOSITION, 0, receiver=False)["state"] == thing
    pair.to.write(disposition(0, receiver=False, state=later))
    got = pair.at.expect(DISPOSITION, 0, receiver=False)
    assert (got["settled"], got["state"]) == (True, later)


def test_a_sender_says_a_state_of_a_delivery_that_goes_on(pair: Pair) -> None:
    """2.7.6: it reaches the receiver before the rest of the message."""
    thing, text = state(0x29A, b"now"), message("g" * 5000)
    pair.to.write(transfer(0, text[:1000], more=True, state=state(0x29A, b"first")))
    (first,) = pair.at.frames(1)
    pair.to.write(disposition(0, receiver=False, settled=False, state=thing))
    got = pair.at.expect(DISPOSITION, 0, receiver=False)
    assert (first["state"], got["settled"] or False, got["state"]) == (state(0x29A, b"first"), False, thing)
    pair.to.write(transfer(None, text[1000:]))
    rest = pair.at.frames(1)
    while rest[-1]["more"]:
        rest += pair.at.frames(1)
    assert first.payload + b"".join(one.payload for one in rest) == text


def test_a_sender_may_settle_a_delivery_that_goes_on(pair: Pair) -> None:
    """2.7.6: discouraged and allowed; the message arrives whole."""
    text = message("g" * 5000)
    pair.to.write(transfer(0, text[:1000], more=True), disposition(0, receiver=False))
    pair.to.write(transfer(None, text[1000:]))
    (arrived,) = pair.at.take(1)
    assert arrived.payload == text
    if not arrived["settled"]:
        assert pair.at.expect(DISPOSITION, 0, receiver=False)["settled"]
    assert told(pair.to) == []


def test_a_receiver_may_refuse_before_the_end(connect: Connect, name: str) -> None:
    """2.6.12: the outcome reaches the sender, and what still comes of the message is discarded."""
    pair = Pair(connect, name)
    text = message("r" * 15_000)
    pair.to.write(transfer(0, text, more=True), *(transfer(None, text, more=True) for _ in range(20)))
    (first,) = pair.at.frames(1)
    pair.at.write(disposition(first["id"], state=state(REJECTED)))
    pair.to.write(transfer(None, text, more=True), transfer(None, text))
    (got,) = pair.to.settled(0, 0)
    assert got.descriptor == REJECTED
    pair.to.write(transfer(1, message("next")))
    while (arrived := pair.at.take(1)[0])["id"] in (None, first["id"]):
        pass
    assert arrived.payload == message("next")


def test_credit_is_not_needed_for_outcomes(pair: Pair) -> None:
    """2.6.7: a link that is stopped still settles."""
    pair.deliver(2)
    pair.at.write(flow(next_in=2, handle=0, count=2, credit=0, in_window=0))
    pair.at.write(disposition(0, 1, state=state(ACCEPTED)))
    assert pair.to.settled(0, 1) == [state(ACCEPTED)] * 2


def test_outcomes_pass_by_held_messages(connect: Connect, name: str) -> None:
    """2.5.6: on one connection that sends and receives, while its messages wait for somebody's credit."""
    both, at = connect(), connect()
    both.receiver(f"{name}.in", 0, credit=PLENTY)
    at.receiver(f"{name}.out", 0)
    both.sender(f"{name}.out", 1)
    at.sender(f"{name}.in", 1)
    text = message("h" * 15_000)
    both.write(*(transfer(number, text, handle=1) for number in range(250)))
    for number in range(PLENTY):
        at.write(transfer(number, handle=1))
        both.take(1)
        both.write(disposition(number, state=state(ACCEPTED)))
        assert at.settled(number, number) == [state(ACCEPTED)]
    at.write(flow(handle=0, count=0, credit=250))
    assert len(at.take(250)) == 250


def test_a_detached_link_takes_no_outcomes_any_more(pair: Pair) -> None:
    """2.7.6 would keep them alive for a link that comes again; the router settles them as modified."""
    pair.deliver(2)
    pair.at.write(said(DETACH, handle=0))
    pair.at.expect(DETACH, 0)
    states = pair.to.settled(0, 1)
    assert [one.descriptor for one in states] == [MODIFIED] * 2
    pair.at.write(disposition(0, 1, state=state(ACCEPTED)))
    pair.at.round_trip()
    assert told(pair.to) == []
    assert [got.code for got in pair.at.round_trip() if got.code in (ATTACH, FLOW, TRANSFER)] == []
