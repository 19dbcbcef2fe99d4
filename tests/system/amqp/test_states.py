"""A state of a delivery passes as its own octets, known to the router or not (AMQP 1.0 parts 2.6, 2.7, 3.4 and 4.5)."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proton import Described, Message, symbol, uint, ulong

from tests.support.clients.wire import (
    DISPOSITION,
    END,
    FALSE,
    NULL,
    TRANSFER,
    TRUE,
    Frame,
    Wire,
    described,
    encode,
    error_in,
)
from tests.support.running import RunningRouter

RECEIVED, ACCEPTED, REJECTED, RELEASED, MODIFIED, DECLARED, TRANSACTIONAL = 0x23, 0x24, 0x25, 0x26, 0x27, 0x33, 0x34
ERROR = 0x1D
MESSAGE = Message(body=b"x").encode()
LONG_LIST = b"\xd0\0\0\0\4\0\0\0\0"


def error(name: str, *more: Any) -> bytes:
    return described(REJECTED, Described(ulong(ERROR), [symbol(name), *more]))


STATES = {
    "received": described(RECEIVED, uint(3), ulong(123_456)),
    "declared": described(DECLARED, b"txn-1"),
    "transactional": described(TRANSACTIONAL, b"txn-1", Described(ulong(ACCEPTED), [])),
    "rejected": error("app:no", "d" * 3000, {symbol("line"): 7, symbol("why"): "größer"}),
    "modified": described(MODIFIED, True, None, {symbol("x-opt-a"): [1, "zwei"]}),
    "modified, flags": described(MODIFIED, True, True),
    "modified, one field more": described(MODIFIED, None, None, None, "later"),
    "rejected, in its longest form": b"\0\x80" + REJECTED.to_bytes(8) + LONG_LIST,
    "by name": b"\0" + encode(symbol("amqp:modified:list")) + b"\xc0\3\2\x41\x42",
    "unknown": described(0x29A, b"x", 7, None, "end"),
    "unknown, empty": described(0x29A),
    "unknown, of 64 bits": b"\0\x80" + (1 << 40).to_bytes(8) + b"\x45",
    "unknown, by name": b"\0" + encode(symbol("example:outcome:list")) + b"\xc0\2\1\x41",
    "unknown, no list": b"\0\x53\x99\xa1\1x",
}
OUTCOMES = [name for name in STATES if name != "received"]
UNSOUND = {
    "a text beyond its list": b"\0\x53\x25\xc0\6\1\0\x53\x1d\xa3\xff",
    "an odd map": b"\0\x53\x27\xc0\7\3\x40\x40\xc1\2\1\x40",
    "an item too few": b"\0\x53\x27\xc0\2\2\x41",
    "an array of nothing": b"\0\x53\x99\xf0\0\0\0\5\xff\xff\xff\xff\x41",
    "no text": b"\0\x53\x99\xa1\1\xff",
}
UNTYPED = {
    ACCEPTED: b"\0\x53\x24\xa1\1x",
    REJECTED: b"\0\x53\x25\xc0\4\1\xa1\1x",
    MODIFIED: b"\0\x53\x27\xc0\x0a\3\x40\x40\xc1\5\2\xa1\1\xff\x40",
}
UNREADABLE = {
    "no txn-id": described(TRANSACTIONAL),
    "a txn-id of another type": described(TRANSACTIONAL, "txn-1"),
    "an outcome of other fields": b"\0\x53\x34\xc0\x0c\2\xa0\5txn-1\0\x53\x24\x41",
    "an item too few": b"\0\x53\x34\xc0\3\2\xa0\0",
    "declared, no txn-id": described(DECLARED),
}


class Pair:
    """A sender and a receiver that write their frames themselves, on connections of their own."""

    def __init__(
        self, stack: ExitStack, router: RunningRouter, address: str, sender: Any = (), receiver: Any = ()
    ) -> None:
        self.receiver = stack.enter_context(Wire(router.address, **dict(receiver)))
        self.sender = stack.enter_context(Wire(router.address, **dict(sender)))
        self.receiver.attach_receiver(address, 1000)
        self.sender.attach_sender(address)
        self.sent = 0

    def deliver(self, **said: Any) -> Frame:
        """A message, and the receiver's first transfer of it."""
        self.sender.send(self.sent, MESSAGE, **said)
        self.sent += 1
        return self.receiver.expect(TRANSFER)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def pair(stack: ExitStack, router: RunningRouter, request: pytest.FixtureRequest) -> Pair:
    return Pair(stack, router, request.node.name)


@pytest.mark.parametrize("name", STATES)
def test_a_receivers_state_arrives_with_the_settlement(pair: Pair, name: str) -> None:
    """What it says is what the sender hears."""
    pair.deliver()
    pair.receiver.dispose(0, STATES[name])
    got = pair.sender.expect(DISPOSITION)
    assert got.field(3) is True
    assert STATES[name] in got.data


@pytest.mark.parametrize("name", STATES)
def test_a_receivers_state_arrives_before_the_settlement(pair: Pair, name: str) -> None:
    """The settlement that follows takes nothing of it back."""
    pair.deliver()
    pair.receiver.dispose(0, STATES[name], settled=False)
    got = pair.sender.expect(DISPOSITION)
    assert not got.field(3)
    assert STATES[name] in got.data
    pair.receiver.dispose(0, NULL)
    got = pair.sender.expect(DISPOSITION)
    assert got.field(3) is True
    assert STATES[name] in got.data


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**31), 2**31 - 1), st.binary(max_size=300), st.text(max_size=300)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3)
)
CODES = st.integers(0x35, 2**64 - 1)  # of states that the standard does not have


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(code=CODES, fields=st.lists(VALUES, max_size=5), settled=st.booleans())
def test_any_unknown_state_passes(pair: Pair, code: int, fields: list[Any], settled: bool) -> None:
    """To the receiver with the message, and back."""
    state = described(code, *fields)
    number = pair.sent
    assert state in pair.deliver(state=state).data
    pair.receiver.dispose(number, state, settled=settled)
    assert state in pair.sender.expect(DISPOSITION).data
    if not settled:
        pair.sender.dispose(number, NULL, receiver=False)
        pair.receiver.expect(DISPOSITION)


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_sender_settles_second(pair: Pair, name: str) -> None:
    """The outcome goes up unsettled, the settlement comes down by the sender's role, and says what the sender says."""
    pair.deliver()
    pair.receiver.dispose(0, STATES[name], settled=False)
    assert STATES[name] in pair.sender.expect(DISPOSITION).data
    pair.sender.dispose(0, STATES[name], receiver=False)
    got = pair.receiver.expect(DISPOSITION)
    assert (got.field(0), got.field(1), got.field(3)) == (False, 0, True)
    assert STATES[name] in got.data


@pytest.mark.parametrize("name", STATES)
def test_a_senders_state_arrives_with_its_transfer_and_behind_it(pair: Pair, name: str) -> None:
    """Also the next one."""
    assert STATES[name] in pair.deliver(state=STATES[name]).data
    pair.sender.dispose(0, STATES["unknown"], receiver=False, settled=False)
    assert STATES["unknown"] in pair.receiver.expect(DISPOSITION).data
    pair.receiver.dispose(0, described(ACCEPTED))
    assert pair.sender.expect(DISPOSITION).field(3) is True


def test_accepted_in_any_form_is_accepted(pair: Pair) -> None:
    """Four octets say it."""
    name = encode(symbol("amqp:accepted:list"))
    for number, octets in enumerate(
        (b"\0\x53\x24\xc0\1\0", b"\0\x80" + bytes(7) + b"\x24\x45", b"\0" + name + LONG_LIST)
    ):
        pair.deliver()
        pair.receiver.dispose(number, octets)
        assert described(ACCEPTED) in pair.sender.expect(DISPOSITION).data


@pytest.mark.parametrize("name", UNSOUND)
def test_an_unsound_state_is_not_passed_on(pair: Pair, name: str) -> None:
    """The settlement is: the state of one peer does not end the connection of another."""
    pair.deliver()
    pair.receiver.dispose(0, UNSOUND[name])
    got = pair.sender.expect(DISPOSITION)
    assert (got.field(3), got.field(4)) == (True, None)


@pytest.mark.parametrize("code", UNTYPED)
def test_an_outcome_whose_fields_are_none_of_it_loses_them(pair: Pair, code: int) -> None:
    """The outcome arrives, and nothing that the sender could not read."""
    pair.deliver()
    pair.receiver.dispose(0, UNTYPED[code])
    got = pair.sender.expect(DISPOSITION)
    assert (got.field(3), got.field(4)) == (True, Described(ulong(code), []))


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("sends", [True, False], ids=["transfer", "disposition"])
def test_a_malformed_state_of_a_transaction_ends_its_session(pair: Pair, name: str, sends: bool) -> None:
    """Without its transaction the delivery would be another one, and would count at once."""
    if sends:
        pair.sender.send(0, MESSAGE, state=UNREADABLE[name])
    else:
        pair.deliver()
        pair.receiver.dispose(0, UNREADABLE[name])
    end = (pair.sender if sends else pair.receiver).expect(END)
    assert error_in(end)[0] == "amqp:invalid-field"


@pytest.mark.parametrize("code", UNTYPED)
def test_an_outcome_that_loses_its_fields_is_said_once(pair: Pair, code: int) -> None:
    """A state that repeats itself is no news."""
    pair.deliver()
    for _ in range(3):
        pair.receiver.dispose(0, UNTYPED[code], settled=False)
    pair.receiver.dispose(0, NULL)
    said = [pair.sender.expect(DISPOSITION) for _ in range(2)]
    assert [bool(one.field(3)) for one in said] == [False, True]


# ---- small frames ----


@pytest.mark.parametrize(
    ("description", "info", "left"),
    [(200, 100, 3), (200, 300, 2), (450, 100, 1), (3000, 3000, 1)],
    ids=["all", "without info", "without description", "the name alone"],
)
def test_a_rejection_is_shortened_to_the_senders_frames(
    stack: ExitStack, router: RunningRouter, request: pytest.FixtureRequest, description: int, info: int, left: int
) -> None:
    """Info goes first, then the description; the condition stays."""
    pair = Pair(stack, router, request.node.name, sender={"max_frame": 512})
    pair.deliver()
    fields = ["d" * description, {symbol("why"): "i" * info}]
    pair.receiver.dispose(0, error("app:no", *fields))
    got = pair.sender.expect(DISPOSITION)
    assert got.size <= 512
    assert got.field(4) == Described(
        ulong(REJECTED), [Described(ulong(ERROR), [symbol("app:no"), *fields[: left - 1]])]
    )


def test_a_rejection_is_no_shorter_than_it_must_be(
    stack: ExitStack, router: RunningRouter, request: pytest.FixtureRequest
) -> None:
    """A frame of 4,000 octets holds a description of 3,000."""
    pair = Pair(stack, router, request.node.name, sender={"max_frame": 4000})
    pair.deliver()
    pair.receiver.dispose(0, error("app:no", "d" * 3000, {symbol("why"): "i" * 1000}))
    assert error("app:no", "d" * 3000) in pair.sender.expect(DISPOSITION).data


def test_modified_loses_its_annotations_in_small_frames(
    stack: ExitStack, router: RunningRouter, request: pytest.FixtureRequest
) -> None:
    """Its flags stay."""
    pair = Pair(stack, router, request.node.name, sender={"max_frame": 512})
    pair.deliver()
    pair.receiver.dispose(0, described(MODIFIED, True, False, {symbol("x-opt-a"): "a" * 600}))
    assert pair.sender.expect(DISPOSITION).field(4) == Described(ulong(MODIFIED), [True, False])


def test_a_transfers_state_is_shortened_to_the_receivers_frames(
    stack: ExitStack, router: RunningRouter, request: pytest.FixtureRequest
) -> None:
    """No frame is longer than its peer allows."""
    pair = Pair(stack, router, request.node.name, receiver={"max_frame": 512})
    got = pair.deliver(state=error("app:no", "d" * 600))
    assert got.size <= 512
    assert got.field(7) == Described(ulong(REJECTED), [Described(ulong(ERROR), [symbol("app:no")])])


# ---- what else a transfer says ----


@pytest.mark.parametrize("settled", [TRUE, FALSE])
@pytest.mark.parametrize("number", [0, 0x80000101, 2**32 - 1])
def test_the_message_format_is_kept(pair: Pair, settled: bytes, number: int) -> None:
    """From the first transfer that comes to the first that goes."""
    assert pair.deliver(message_format=number, settled=settled).field(3) == number


def test_the_message_format_of_a_stream_is_kept(pair: Pair) -> None:
    """The receiver has its first transfer before the sender's last one has come."""
    data = Message(body=b"x" * 300_000).encode()
    pair.sender.send(0, data[:10_000], 0x123, more=TRUE)
    assert pair.receiver.expect(TRANSFER).field(3) == 0x123


@pytest.mark.parametrize("mode", [b"\x50\0", b"\x50\1"])
def test_a_transfers_settle_mode_is_between_its_sender_and_the_router(pair: Pair, mode: bytes) -> None:
    """Its receiver has what its own link says."""
    assert pair.deliver(mode=mode).field(6) is None


@pytest.mark.parametrize("more", [NULL, TRUE])
def test_a_resumed_delivery_is_refused(pair: Pair, more: bytes) -> None:
    """The router forgets the deliveries of a link that is detached: what comes may be the rest of a message."""
    pair.sender.send(0, MESSAGE, resume=TRUE, more=more)
    got = pair.sender.expect(DISPOSITION)
    assert got.field(3) is True
    assert got.field(4).value[0].value[0] == "amqp:not-implemented"
    if more == TRUE:
        pair.sender.transfer(0, MESSAGE)
    pair.sent = 1
    assert pair.deliver().fields[1] == 0


@pytest.mark.parametrize("flags", [(NULL, TRUE), (TRUE, TRUE)])
def test_a_resumed_delivery_that_is_settled_or_aborted_is_forgotten(pair: Pair, flags: tuple[bytes, bytes]) -> None:
    """Nobody waits for an answer."""
    settled, resume = flags
    pair.sender.send(0, MESSAGE, resume=resume, settled=settled)
    pair.sent = 1
    assert pair.deliver().fields[1] == 0
