"""Deliveries and their TRANSFERs, in both directions (AMQP 1.0 parts 2.6.12 to 2.6.14 and 2.7.5)."""

import pytest

from tests.support.beds.conformance import Connect
from tests.support.clients.frame_client import MESSAGE, FrameClient, disposition, flow, message, transfer
from tests.support.clients.octets import (
    ACCEPTED,
    DISPOSITION,
    FLOW,
    REJECTED,
    TRANSFER,
    WRAP,
    Frame,
    Symbol,
    said,
    state,
)  # fmt: skip

PLENTY = 100


class Pair:
    """A sender and a receiver with credit on one address, each on a connection of its own."""

    def __init__(self, connect: Connect, name: str, **limits: int) -> None:
        self.at, self.to = connect(**limits), connect()
        self.at.receiver(name, credit=PLENTY)
        self.to.sender(name)

    def accept(self, number: int, arrived: Frame) -> None:
        """The receiver accepts, and the sender hears of its delivery."""
        self.at.write(disposition(arrived["id"], state=state(ACCEPTED)))
        assert self.to.settled(number, number) == [state(ACCEPTED)]

    def passes(self, number: int) -> None:
        """A message arrives, maybe behind what was given up, and is accepted."""
        self.to.write(transfer(number, message(f"passes {number}")))
        (arrived,) = self.at.take(1)
        while arrived["aborted"]:
            (arrived,) = self.at.take(1)
        assert arrived.payload == message(f"passes {number}")
        self.accept(number, arrived)


@pytest.fixture
def pair(connect: Connect, name: str) -> Pair:
    return Pair(connect, name)


def told(client: FrameClient) -> list[Frame]:
    """DISPOSITIONs that have come by now."""
    return [got for got in client.round_trip() if got.code == DISPOSITION]


def delivery(client: FrameClient) -> list[Frame]:
    """The frames of the next delivery."""
    frames = client.frames(1)
    while frames[-1]["more"]:
        frames += client.frames(1)
    return frames


# ---- fragments ----


@pytest.mark.parametrize("again", [False, True], ids=["omitted", "repeated"])
def test_continuations_may_omit_or_repeat_the_delivery_id(pair: Pair, again: bool) -> None:
    """2.7.5: and tag and message-format with it."""
    more = {"id": 0, "tag": b"0", "format": 0} if again else {}
    pair.to.write(transfer(0, MESSAGE[:3], more=True))
    for part in (MESSAGE[3:5], MESSAGE[5:]):
        pair.to.write(said(TRANSFER, 0, part, handle=0, more=part != MESSAGE[5:], **more))
    frames = delivery(pair.at)
    assert b"".join(got.payload for got in frames) == MESSAGE
    pair.accept(0, frames[0])
    pair.passes(1)


def test_frames_without_payload_belong_to_their_delivery(pair: Pair) -> None:
    """2.6.14: a frame may carry any amount of data, also none."""
    empty = transfer(None, b"", more=True)
    pair.to.write(transfer(0, b"", more=True), empty, transfer(None, MESSAGE[:2], more=True), empty)
    pair.to.write(transfer(None, MESSAGE[2:], more=True), transfer(None, b""))
    frames = delivery(pair.at)
    assert b"".join(got.payload for got in frames) == MESSAGE
    pair.passes(1)


@pytest.mark.parametrize("size", [1, 100, 20_000, 600_000])
def test_what_the_router_sends_is_in_order(connect: Connect, name: str, size: int) -> None:
    """2.6.12, 2.7.5: first frames have consecutive ids, a tag and a format; the next ones say nothing else."""
    pair = Pair(connect, name, max_frame=4096)
    tags = set()
    for number in range(3):
        text = message("m" * size)
        parts = [text[start : start + 16_000] for start in range(0, len(text), 16_000)]
        for place, part in enumerate(parts):
            pair.to.write(transfer(None if place else number, part, more=place < len(parts) - 1))
        first, *others = delivery(pair.at)
        assert first["id"] == number
        assert 0 < len(first["tag"]) <= 32
        assert first["format"] == 0
        tags.add(first["tag"])
        assert {one["id"] for one in others} <= {None, number}
        assert {one["tag"] for one in others} <= {None, first["tag"]}
        assert b"".join(one.payload for one in (first, *others)) == text
    assert len(tags) == 3, "unsettled deliveries of a link have different tags"
    pair.at.write(disposition(0, 2, state=state(ACCEPTED)))
    assert pair.to.settled(0, 2) == [state(ACCEPTED)] * 3


def test_delivery_ids_are_the_sessions(connect: Connect, name: str) -> None:
    """2.6.12: the links of a session share their sequence, and those of another session have their own."""
    at, to = connect(2), connect()
    for handle in range(3):
        at.receiver(f"{name}.{handle}", handle, credit=PLENTY)
        to.sender(f"{name}.{handle}", handle)
    at.receiver(f"{name}.3", 3, 1, credit=PLENTY)
    to.sender(f"{name}.3", 3)
    ids = []
    for number, handle in enumerate((2, 0, 3, 1, 1, 2)):
        to.write(transfer(number, handle=handle))
        ids += [at.take(1, handle, int(handle == 3))[0]["id"]]
    assert ids == [0, 1, 0, 2, 3, 4]


def test_deliveries_of_two_links_may_be_interleaved(connect: Connect, name: str) -> None:
    """2.6.14: in one session; each arrives whole and by itself."""
    at, to = connect(), connect()
    for handle in range(2):
        at.receiver(f"{name}.{handle}", handle, credit=1)
        to.sender(f"{name}.{handle}", handle)
    texts = [message(letter * 9000) for letter in "ab"]
    to.write(transfer(0, texts[0][:3000], more=True), transfer(1, texts[1][:10], handle=1, more=True))
    to.write(transfer(None, texts[0][3000:], more=True), transfer(None, texts[1][10:], handle=1))
    assert at.take(1, 1)[0].payload == texts[1]
    to.write(transfer(None, b""))
    assert at.take(1, 0)[0].payload == texts[0]


# ---- tags and formats ----


@pytest.mark.parametrize("size", [0, 1, 31, 32])
def test_a_delivery_tag_has_up_to_32_octets(pair: Pair, size: int) -> None:
    """2.8.7."""
    pair.to.write(transfer(0, tag=b"t" * size))
    pair.accept(0, pair.at.take(1)[0])


def test_a_delivery_with_a_longer_tag_is_rejected_alone(pair: Pair) -> None:
    """2.8.7: no tag has more than 32 octets; the deliveries before and behind it pass."""
    pair.to.write(transfer(0), transfer(1, tag=bytes(33)), transfer(2))
    (refused,) = pair.to.settled(1, 1)
    assert refused.descriptor == REJECTED
    for number, got in zip((0, 2), pair.at.take(2), strict=True):
        pair.accept(number, got)


def test_a_tag_may_come_again_when_its_delivery_is_settled(pair: Pair) -> None:
    """2.6.12: it is unique among unsettled deliveries only."""
    for number in range(3):
        pair.to.write(transfer(number, tag=b"same"))
        pair.accept(number, pair.at.take(1)[0])


def test_a_first_transfer_without_tag_and_format_is_taken(pair: Pair) -> None:
    """2.7.5 demands both of the sender; the router needs neither, so it is lenient."""
    pair.to.write(said(TRANSFER, 0, MESSAGE, handle=0, id=0))
    arrived = pair.at.take(1)[0]
    assert arrived["format"] == 0
    assert arrived["tag"]
    pair.accept(0, arrived)


# ---- settled ----


@pytest.mark.parametrize(
    ("flags", "settled"),
    [
        ((None, None, None), False),
        ((False, None, False), False),
        ((True, None, None), True),
        ((None, True, None), True),
        ((None, None, True), True),
        ((False, True, True), True),
        ((True, True, None), True),
    ],
)
def test_settled_on_any_frame_counts_from_there_on(pair: Pair, flags: tuple[bool | None, ...], settled: bool) -> None:
    """2.7.5: absent, it is what the frames before said; a settled delivery has no answer."""
    for place, (flag, part) in enumerate(zip(flags, (MESSAGE[:4], MESSAGE[4:6], MESSAGE[6:]), strict=True)):
        said_of = {} if flag is None else {"settled": flag}
        pair.to.write(transfer(None if place else 0, part, more=place < 2, **said_of))
    frames = delivery(pair.at)
    assert b"".join(got.payload for got in frames) == MESSAGE
    if settled:
        pair.at.round_trip()
        assert told(pair.to) == []
    else:
        assert not any(got["settled"] for got in frames)
        pair.accept(0, frames[0])
    pair.passes(1)


def test_a_settled_message_is_sent_settled(pair: Pair) -> None:
    """2.6.12: at most once, on every part of the way."""
    pair.to.write(transfer(0, settled=True))
    assert pair.at.take(1)[0]["settled"]
    pair.at.round_trip()
    assert told(pair.to) == []
    pair.passes(1)


def test_a_settled_long_message_is_sent_settled(connect: Connect, name: str) -> None:
    """2.7.5: on at least one of its frames."""
    pair = Pair(connect, name, max_frame=512)
    text = message("s" * 5000)
    pair.to.write(transfer(0, text, settled=True))
    frames = delivery(pair.at)
    assert len(frames) > 9
    assert any(got["settled"] for got in frames)
    assert b"".join(got.payload for got in frames) == text
    pair.passes(1)


@pytest.mark.parametrize("mode", [0, 1, 2], ids=["unsettled", "settled", "mixed"])
def test_the_senders_settle_mode(connect: Connect, name: str, mode: int) -> None:
    """2.8.2: the router says which one it has, and keeps to it."""
    at, to = connect(), connect()
    answer = at.receiver(name, credit=PLENTY, snd_mode=mode)
    to.sender(name)
    to.write(transfer(0))
    arrived = at.take(1)[0]
    if answer["snd_mode"] == 1:
        assert mode == 1
        assert arrived["settled"]
        assert to.settled(0, 0) == [state(ACCEPTED)]
    else:
        assert not arrived["settled"]
        at.write(disposition(0, state=state(ACCEPTED)))
        assert to.settled(0, 0) == [state(ACCEPTED)]


# ---- aborted ----


@pytest.mark.parametrize("parts", [0, 1, 3])
@pytest.mark.parametrize("more", [None, False, True])
def test_an_aborted_delivery_is_nobodys(pair: Pair, parts: int, more: bool | None) -> None:
    """2.6.14, 2.7.5: whatever `more` says; its payload is ignored, it is settled, and the next one follows."""
    for place in range(parts):
        pair.to.write(transfer(None if place else 0, b"\0\x53\x77", more=True))
    pair.to.write(transfer(None if parts else 0, b"ignored", aborted=True, more=more))
    pair.passes(1)
    assert told(pair.to) == []


def test_an_abort_of_what_was_passed_on_is_passed_on(pair: Pair) -> None:
    """2.6.14: the receiver has the first part, so it must learn that the rest does not come."""
    text = message("a" * 14_000)
    pair.to.write(transfer(0, text, more=True), *(transfer(None, text, more=True) for _ in range(20)))
    (first,) = pair.at.frames(1)
    assert first["more"]
    pair.to.write(transfer(None, b"", aborted=True))
    got = pair.at.take(1)[0]
    assert got["aborted"]
    assert got["id"] in (None, first["id"])
    pair.passes(1)
    assert told(pair.to) == []


def test_aborts_of_two_links_are_their_own(connect: Connect, name: str) -> None:
    """2.6.14: one ends, the other one goes on."""
    at, to = connect(), connect()
    for handle in range(2):
        at.receiver(f"{name}.{handle}", handle, credit=2)
        to.sender(f"{name}.{handle}", handle)
    to.write(transfer(0, MESSAGE[:4], more=True), transfer(1, MESSAGE[:4], handle=1, more=True))
    to.write(transfer(None, aborted=True), transfer(None, MESSAGE[4:], handle=1), transfer(2))
    assert at.take(1, 1)[0].payload == MESSAGE
    got = at.take(1)[0]
    assert (at.take(1)[0] if got["aborted"] else got).payload == MESSAGE


# ---- numbers ----


@pytest.mark.parametrize("first", [7, 2**31 - 2, WRAP - 2])
def test_delivery_ids_begin_anywhere_and_wrap(pair: Pair, first: int) -> None:
    """2.8.9: they are serial numbers; outcomes come back for those on either side of zero."""
    ids = [(first + n) % WRAP for n in range(5)]
    pair.to.write(*(transfer(number, tag=b"%d" % number) for number in ids))
    arrived = pair.at.take(5)
    pair.at.write(disposition(arrived[0]["id"], arrived[4]["id"], state=state(ACCEPTED)))
    settled: set[int] = set()
    while settled != set(ids):
        got = pair.to.expect(DISPOSITION, 0, receiver=True, settled=True)
        last = got["first"] if got["last"] is None else got["last"]
        covered = [(got["first"] + n) % WRAP for n in range((last - got["first"]) % WRAP + 1)]
        assert len(covered) <= 5
        settled |= set(covered)


# ---- the rest of the fields ----


def test_a_resumed_delivery_is_rejected(pair: Pair) -> None:
    """2.6.13: the router keeps no unsettled deliveries for links that come again; its message may be a rest."""
    pair.to.write(transfer(0, resume=True))
    (said,) = pair.to.settled(0, 0)
    assert (said.descriptor, said.value[0].value[0]) == (REJECTED, "amqp:not-implemented")
    pair.passes(1)


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("number", [0x80000101, WRAP - 1])
def test_the_message_format_is_kept(pair: Pair, number: int, settled: bool) -> None:
    """2.7.5: of a message in one frame, and of one in several."""
    pair.to.write(transfer(0, settled=settled, format=number))
    pair.to.write(transfer(1, MESSAGE[:9], settled=settled, more=True, format=number), transfer(None, MESSAGE[9:]))
    assert [(got["format"], got.payload) for got in pair.at.take(2)] == [(number, MESSAGE)] * 2


@pytest.mark.parametrize("batchable", [None, False, True])
def test_batchable_is_a_hint(pair: Pair, batchable: bool | None) -> None:
    """2.7.5, 2.7.6: outcomes come all the same."""
    pair.to.write(transfer(0, batchable=batchable))
    arrived = pair.at.take(1)[0]
    pair.at.write(disposition(arrived["id"], batchable=batchable, state=state(ACCEPTED)))
    assert pair.to.settled(0, 0) == [state(ACCEPTED)]


def test_a_transfer_may_say_a_state(pair: Pair) -> None:
    """2.7.5: as a DISPOSITION just before it would."""
    thing = state(0x29A, b"x", "text", [Symbol("a")])
    pair.to.write(transfer(0, state=thing))
    arrived = pair.at.take(1)[0]
    assert arrived["state"] == thing
    pair.accept(0, arrived)


@pytest.mark.parametrize("mode", [0, 1], ids=["first", "second"])
def test_a_settled_transfer_ignores_the_receivers_settle_mode(pair: Pair, mode: int) -> None:
    """2.7.5."""
    pair.to.write(transfer(0, settled=True, rcv_mode=mode))
    assert pair.at.take(1)[0]["settled"]
    pair.passes(1)


def test_a_flow_between_the_frames_of_a_delivery_harms_nothing(pair: Pair) -> None:
    """2.6.14: other performatives may stand between its TRANSFERs."""
    pair.to.write(transfer(0, MESSAGE[:4], more=True), flow(next_out=1), disposition(0))
    pair.to.write(flow(next_out=1, echo=True))
    pair.to.expect(FLOW, 0)
    pair.to.write(transfer(None, MESSAGE[4:]))
    assert b"".join(got.payload for got in delivery(pair.at)) == MESSAGE
