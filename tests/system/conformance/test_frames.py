"""Frames and performatives in each form, in pieces, and of the least size (AMQP 1.0 parts 1.6, 2.3 and 2.7)."""

import random
from typing import Any

import pytest

from tests.support.beds.conformance import SMALLEST, Connect, Scene
from tests.support.clients.frame_client import MESSAGE, FrameClient, disposition, flow, message, termini, transfer
from tests.support.clients.octets import (
    ACCEPTED,
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    OPEN,
    REJECTED,
    TRANSFER,
    Described,
    Encoded,
    Symbol,
    Ulong,
    encode,
    frame,
    listed,
    performative,
    said,
    state,
)

HEARTBEAT = frame(0, b"")
ERROR = 0x1D


# ---- forms of values ----


@pytest.mark.parametrize("wide", [False, True], ids=["shortest", "longest"])
def test_each_field_has_short_and_long_forms(connect: Connect, name: str, wide: bool) -> None:
    """1.6: a whole exchange, in which every field of TRANSFER, FLOW and DISPOSITION says something."""
    at, to = connect(0), connect(0)
    window = {"in_window": 100, "next_out": 0, "out_window": 100}
    for client in (at, to):
        client.write(said(BEGIN, wide=wide, **window))
        client.begun()
    at.write(at.attaching(name, 3, True, wide=wide))
    at.attached(3)
    more = {"handle": 3, "count": 0, "credit": 2, "available": 0, "drain": False, "echo": False, "properties": {}}
    at.write(said(FLOW, wide=wide, next_in=0, **window, **more))
    to.write(to.attaching(name, 0, False, wide=wide))
    to.attached(0)
    to.expect(FLOW)
    first = {"handle": 0, "id": 0, "tag": b"tag", "format": 0, "settled": False, "more": True, "rcv_mode": 0,
             "state": None, "resume": False, "aborted": False, "batchable": True}  # fmt: skip
    to.write(said(TRANSFER, 0, MESSAGE[:4], wide=wide, **first))
    to.write(said(TRANSFER, 0, MESSAGE[4:], wide=wide, handle=0, id=0, settled=False, more=False, batchable=False))
    (arrived,) = at.take(1, 3)
    assert arrived.payload == MESSAGE
    said_of = {"receiver": True, "first": arrived["id"], "last": arrived["id"], "settled": True, "batchable": True}
    at.write(said(DISPOSITION, wide=wide, state=state(ACCEPTED), **said_of))
    assert to.settled(0, 0) == [state(ACCEPTED)]


@pytest.mark.parametrize("form", [8, 32], ids=["list8", "list32"])
@pytest.mark.parametrize("wide", [False, True], ids=["smallulong", "ulong"])
def test_a_performative_is_any_list(connect: Connect, name: str, form: int, wide: bool) -> None:
    """1.6.22: list8 and list32, behind either form of its descriptor."""
    at, to = connect(), connect()
    at.receiver(name)
    descriptor = {code: b"\0" + encode(Ulong(code), wide) for code in (FLOW, TRANSFER, DISPOSITION)}
    numbers = [b"\x43", b"\x52\x64", b"\x43", b"\x52\x64"]
    at.write(frame(0, descriptor[FLOW] + listed([*numbers, b"\x43", b"\x43", b"\x52\x0a"], form)))
    to.sender(name)
    to.write(frame(0, descriptor[TRANSFER] + listed([b"\x43", b"\x43", b"\xa0\x01x", b"\x43"], form) + MESSAGE))
    (arrived,) = at.take(1)
    assert arrived.payload == MESSAGE
    at.write(frame(0, descriptor[DISPOSITION] + listed([b"\x41", b"\x43", b"\x43", b"\x41", b"\0\x53\x24\x45"], form)))
    assert to.settled(0, 0) == [state(ACCEPTED)]


EMPTY_LISTS = {"list0": b"\x45", "list8": b"\xc0\x01\x00", "list32": b"\xd0\0\0\0\x04\0\0\0\0"}


@pytest.mark.parametrize("octets", EMPTY_LISTS.values(), ids=EMPTY_LISTS)
def test_an_empty_list_has_three_forms(connect: Connect, name: str, octets: bytes) -> None:
    """1.6.22: in a state, and as the performatives that need no field."""
    at, to = connect(), connect()
    at.receiver(name, credit=1)
    to.sender(name)
    to.write(transfer(0))
    at.write(disposition(at.take(1)[0]["id"], state=Encoded(b"\0\x53\x24" + octets)))
    assert to.settled(0, 0) == [state(ACCEPTED)]
    to.write(frame(0, b"\0\x53\x17" + octets))
    to.expect(END)
    to.write(frame(0, b"\0\x53\x18" + octets))
    assert to.end_of_connection().condition is None


def test_fields_at_the_end_may_be_missing(connect: Connect, name: str) -> None:
    """1.4: as if they were null."""
    at, to = connect(), connect()
    at.receiver(name)
    at.write(said(FLOW, next_in=0, in_window=9, next_out=0, out_window=9, handle=0, count=0, credit=2))
    to.sender(name)
    to.write(said(TRANSFER, 0, MESSAGE, handle=0, id=0, tag=b"a"))
    to.write(said(TRANSFER, 0, MESSAGE, handle=0, id=1, tag=b"b", **dict.fromkeys(LATER)))
    assert [got.payload for got in at.take(2)] == [MESSAGE, MESSAGE]
    at.write(said(DISPOSITION, receiver=True, first=0))
    at.write(said(DISPOSITION, receiver=True, first=1, last=None, settled=True, state=None, batchable=None))
    assert to.settled(1, 1) == [None]


LATER = ("format", "settled", "more", "rcv_mode", "state", "resume", "aborted", "batchable")


def test_an_extended_header_is_skipped(connect: Connect, name: str) -> None:
    """2.3.1: the data offset says where the body begins."""
    at, to = connect(), connect()
    at.receiver(name, credit=1)
    to.sender(name)
    body = performative(TRANSFER, handle=0, id=0, tag=b"x") + MESSAGE
    to.write(frame(0, body, extended=b"\xff" * 40))
    assert at.take(1)[0].payload == MESSAGE


def test_empty_frames_are_nothing(connect: Connect, name: str) -> None:
    """2.4.5: anywhere, also within a delivery, on whatever channel."""
    at, to = connect(), connect()
    at.receiver(name, credit=1)
    to.sender(name)
    empty = HEARTBEAT + frame(99, b"") + frame(0, b"", extended=bytes(8))
    to.write(empty, transfer(0, MESSAGE[:3], more=True), empty, transfer(None, MESSAGE[3:]), empty)
    assert at.take(1)[0].payload == MESSAGE


def test_unknown_capabilities_and_properties_harm_nobody(connect: Connect, name: str) -> None:
    """2.7.2 to 2.7.4: what the peer does not know is ignored."""
    at, to = connect(), connect()
    at.receiver(name)
    properties = {Symbol("x-opt-nobody-knows"): "it"}
    at.write(flow(handle=0, count=0, credit=1, properties=properties))
    to.sender(name)
    to.write(transfer(0))
    assert at.take(1)[0].payload == MESSAGE


# ---- pieces ----


def script(name: str, client: FrameClient) -> tuple[bytes, bytes]:
    """All that a client says which sends three messages to itself, and when it has them."""
    opening = AMQP_HEADER + said(OPEN, container="pieces")
    opening += client.beginning(0) + client.attaching(name, 0, True) + flow(handle=0, credit=9)
    opening += client.attaching(name, 1, False)
    sending = transfer(0, message("one"), handle=1) + HEARTBEAT + transfer(1, message("t"), handle=1, more=True)
    sending += transfer(None, b"", handle=1, more=True) + transfer(None, b"", handle=1)
    return opening, sending + transfer(2, message("three" * 50), handle=1, settled=True)


def converse(client: FrameClient, name: str, pieces: Any) -> None:
    """Says the script, each half of it in pieces."""
    opening, sending = script(name, client)
    client.write_in_pieces(opening, pieces(len(opening)))
    client.answer_to_open()
    client.begun()
    client.attached(1)
    client.expect(FLOW, handle=client.handles[0, 1])
    (mine,) = [got for got in client.passed if got.code == ATTACH and got["name"] == "link-0-0"]
    client.handles[0, 0] = mine["handle"]
    client.write_in_pieces(sending, pieces(len(sending)))
    arrived = client.take(3)
    assert [got.payload for got in arrived] == [message("one"), message("t"), message("three" * 50)]
    ids = [got["id"] for got in arrived]
    client.write_in_pieces(disposition(ids[0], ids[2], state=state(ACCEPTED)), pieces(20))
    assert client.settled(0, 1) == [state(ACCEPTED)] * 2


def test_frames_come_octet_by_octet(connect: Connect, name: str, router: Any) -> None:
    """2.3: TCP keeps no frame together."""
    client = FrameClient(router.address)
    with client.socket:
        converse(client, name, lambda size: [1] * (size - 1))


@pytest.mark.parametrize("seed", range(8))
def test_frames_come_in_random_pieces(name: str, router: Any, seed: int) -> None:
    """Several in one, and one in several."""
    chance = random.Random(seed)  # noqa: S311 - no secret

    def pieces(size: int) -> list[int]:
        return [chance.choice((1, 2, 3, 7, 8, 9, 40, 200)) for _ in range(size // 8)]

    client = FrameClient(router.address)
    with client.socket:
        converse(client, f"{name}.{seed}", pieces)


def test_a_frame_that_never_ends_does_not_hold_up_what_the_router_says(connect: Connect, name: str) -> None:
    """2.3: messages to a client arrive while its own TRANSFER is half here."""
    at, to = connect(), connect()
    at.receiver(name, credit=2)
    at.sender(name, 1)
    half = transfer(0, message("x" * 300), handle=1)
    at.write(half[:40])
    to.sender(name)
    to.write(transfer(0, message("first")))
    assert at.take(1)[0].payload == message("first")
    at.write(half[40:])
    assert at.take(1)[0].payload == message("x" * 300)


# ---- sizes ----


def test_the_largest_frames_that_the_router_allows(connect: Connect, name: str) -> None:
    """2.7.1: a frame of max-frame-size passes, be it of the least size that there is."""
    at, to = connect(), connect(narrow=True)
    at.receiver(name, credit=1)
    to.sender(name)
    head = len(transfer(0, b"", more=True))
    text = message("y" * (2 * SMALLEST))
    first = transfer(0, text[: SMALLEST - head], more=True)
    assert len(first) == SMALLEST
    to.write(first, transfer(None, text[SMALLEST - head : 900], more=True), transfer(None, text[900:]))
    arrived = at.take(1)[0]
    assert arrived.payload == text


@pytest.mark.parametrize("limit", [SMALLEST, SMALLEST + 1, 4096, 1 << 20])
def test_no_frame_is_larger_than_its_receiver_allows(connect: Connect, name: str, limit: int) -> None:
    """2.7.1: not those of a message, of an outcome with much to say, or of an answer."""
    at, to = connect(max_frame=limit), connect(max_frame=limit)
    at.receiver(name, credit=9)
    to.sender(name)
    text = message("z" * 60_000)
    pieces = [text[start : start + 16_000] for start in range(0, len(text), 16_000)]
    to.write(transfer(0, pieces[0], more=True), *(transfer(None, piece, more=True) for piece in pieces[1:]))
    to.write(transfer(None, b""))
    frames = at.frames(1)
    while frames[-1]["more"]:
        frames += at.frames(1)
    assert b"".join(got.payload for got in frames) == text
    error = Described(Ulong(ERROR), [Symbol("app:no"), "d" * 3000, {Symbol("info"): "i" * 3000}])
    at.write(disposition(frames[0]["id"], state=state(REJECTED, error)))
    got = to.expect(DISPOSITION)
    assert got["state"].descriptor == REJECTED
    assert got["state"].value[0].value[0] == "app:no"
    everything = [*frames, got, *at.passed, *to.passed]
    assert max(one.size for one in everything) <= limit
    assert got["state"] == state(REJECTED, error) or limit < 6100


@pytest.mark.parametrize("limit", [512, 513, 530, 552, 600])
def test_an_outcome_that_just_fits_is_no_frame_too_large(connect: Connect, name: str, limit: int) -> None:
    """2.7.1: whatever the length of its description."""
    at, to = connect(), connect(max_frame=limit)
    at.receiver(name, credit=100)
    to.sender(name)
    for number, size in enumerate(range(limit - 120, limit + 10, 3)):
        to.write(transfer(number))
        (arrived,) = at.take(1)
        error = Described(Ulong(ERROR), [Symbol("app:no"), "d" * size])
        at.write(disposition(arrived["id"], state=state(REJECTED, error)))
        got = to.expect(DISPOSITION)
        assert got["state"].descriptor == REJECTED
        assert got["state"].value[0].value[0] == "app:no"
        assert got.size <= limit


@pytest.mark.parametrize("size", [100, 230, 300, 440, 470, 500, 3000])
def test_a_state_that_does_not_fit_a_transfer_makes_it_no_larger(connect: Connect, name: str, size: int) -> None:
    """2.7.1: the message arrives, whatever its sender said of it."""
    at, to = connect(max_frame=SMALLEST), connect()
    at.receiver(name, credit=1)
    to.sender(name)
    text = message("t" * 2000)
    to.write(transfer(0, text, state=state(0x29A, "s" * size)))
    frames = at.frames(1)
    while frames[-1]["more"]:
        frames += at.frames(1)
    assert max(got.size for got in frames) <= SMALLEST
    assert b"".join(got.payload for got in frames) == text


def test_a_max_frame_size_below_the_least_counts_as_the_least(connect: Connect, name: str) -> None:
    """2.7.1: both peers must accept 512 octets, so a smaller wish is not one."""
    at, to = connect(max_frame=100), connect()
    at.receiver(name, credit=1)
    to.sender(name)
    to.write(transfer(0, message("z" * 400)))
    assert at.take(1)[0].size <= SMALLEST


# ---- numbers of sessions and links ----


def test_the_highest_channel_and_handle_work(connect: Connect, name: str) -> None:
    """2.7.1, 2.7.2: channel-max and handle-max themselves are allowed."""
    client = connect(0)
    begun = client.begin(32_767)
    handles = (begun["handle_max"], begun["handle_max"] - 1)
    client.receiver(name, handles[0], 32_767, credit=1)
    client.sender(name, handles[1], 32_767)
    client.write(transfer(0, channel=32_767, handle=handles[1]))
    (arrived,) = client.take(1, handles[0], 32_767)
    client.write(disposition(arrived["id"], channel=32_767, state=state(ACCEPTED)))
    assert client.settled(0, 0, 32_767) == [state(ACCEPTED)]
    client.close()


def test_handles_far_apart_are_told_apart(connect: Connect, name: str) -> None:
    """2.6.2: a peer chooses its handles freely."""
    client = connect()
    handles = [0, 1, 31, 32, 33, 255, 256, 65_535, 65_536, 2**24, 2**31 - 2]
    for number, handle in enumerate(handles):
        client.receiver(f"{name}.{number}", handle, credit=1)
    to = connect()
    for number, handle in enumerate(handles):
        to.sender(f"{name}.{number}", handle)
    for number, handle in enumerate(reversed(handles)):
        to.write(transfer(number, handle=handle))
    for handle in reversed(handles):
        client.take(1, handle)


def test_a_handle_and_a_channel_are_free_again_behind_the_answer(connect: Connect, name: str) -> None:
    """2.5.2, 2.6.6: and what follows has nothing of what was before."""
    at, to = connect(), connect()
    at.receiver(name, credit=100)
    for turn in range(5):
        to.sender(name)
        to.write(transfer(0 if turn % 2 == 0 else 1), said(DETACH, handle=0, closed=True))
        at.take(1)
        to.expect(DETACH)
        if turn % 2:
            to.write(said(END))
            to.expect(END)
            to.begin()
    to.close()


def test_many_sessions_with_many_links_at_once(connect: Connect, name: str) -> None:
    """2.5, 2.6: frames of forty deliveries stand between each other, in any order; each arrives whole."""
    chance = random.Random(5)  # noqa: S311 - no secret
    sessions, links = 8, 5
    at, to = connect(sessions), connect(sessions)
    places = [(channel, handle) for channel in range(sessions) for handle in range(links)]
    for channel, handle in places:
        at.receiver(f"{name}.{channel}.{handle}", handle, channel, credit=1)
        to.sender(f"{name}.{channel}.{handle}", handle, channel)
    left = {place: [message(f"{place} {'p' * 200}")[n : n + 20] for n in range(0, 230, 20)] for place in places}
    whole = {place: b"".join(parts) for place, parts in left.items()}
    ids = dict.fromkeys(range(sessions), 0)
    begun = set()
    while left:
        channel, handle = place = chance.choice(list(left))
        first = None if place in begun else ids[channel]
        ids[channel] += first is not None
        begun.add(place)
        part = left[place].pop(0)
        to.write(transfer(first, part, channel, handle=handle, more=bool(left[place])))
        if not left[place]:
            del left[place]
    arrived = {(channel, handle): at.take(1, handle, channel)[0] for channel, handle in places}
    assert {place: got.payload for place, got in arrived.items()} == whole


def test_everything_in_one_write(router: Any, name: str) -> None:
    """2.4.1: a client need not wait for anything: header, OPEN, BEGIN, ATTACH, FLOW, and at once CLOSE."""
    client = FrameClient(router.address)
    with client.socket:
        opening, _ = script(name, client)
        client.write(opening, said(CLOSE))
        client.answer_to_open()
        assert client.end_of_connection().condition is None


def test_the_scene_works(connect: Connect, name: str) -> None:
    """What the tests of violations break is whole before."""
    scene = Scene(connect, name)
    scene.passes(0, watched=0)
    scene.passes(1, watched=1, handle=2)
    scene.passes(0, watched=2, channel=1)
    scene.client.write(said(ATTACH, name="again", handle=5, receiver=True, **termini(True, name)))
    assert scene.client.expect(ATTACH)["name"] == "again"
    scene.client.close()
