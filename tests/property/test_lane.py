"""The data lane against a model: each field in each of its forms, and sessions step by step."""

import ctypes
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from proton import Data, Described, symbol, ulong

from tests.model.lane import WRAP, Link, Session

ROOT = Path(__file__).parents[2]
ROOM = 1 << 14
LINKS = 3  # of lane.c; the last goes out
NULL, LIST0, LIST8, LIST32 = b"\x40", b"\x45", b"\xc0", b"\xd0"
MALFORMED = "amqp:decode-error"


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """lane.c, with what it returns."""
    library = tmp_path_factory.mktemp("lane") / "lane.so"
    command = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-shared"]
    command += ["-fPIC", f"-I{ROOT}", str(Path(__file__).with_name("lane.c")), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = ctypes.CDLL(str(library))
    found.opened.restype = ctypes.c_void_p
    found.rewritten.restype = found.shortened.restype = found.headed.restype = ctypes.c_size_t
    return found


def tell(native: ctypes.CDLL, frame: bytes) -> str:
    words = ctypes.create_string_buffer(ROOM)
    native.tell(frame, ctypes.c_size_t(len(frame)), words, ctypes.c_size_t(ROOM))
    return words.value.decode()


# ---- frames: a field is its octets in one of its forms, and the words that the lane must find ----

Field = tuple[bytes, str]


def frame(code: int, items: list[bytes], payload: bytes = b"", *, wide: bool = False, extended: bool = False) -> bytes:
    """A frame with this performative: descriptor and list in their short or long forms, or with a longer head."""
    content = b"".join(items)
    long_list = wide or len(content) > 254
    head = struct.pack(">II", len(content) + 4, len(items)) if long_list else bytes((len(content) + 1, len(items)))
    body = b"\0" + (b"\x80" + struct.pack(">Q", code) if wide else bytes((0x53, code)))
    body += LIST0 if not items and not wide else (LIST32 if long_list else LIST8) + head + content
    rest = (b"\x03\0\0\x09more" if extended else b"\x02\0\0\x09") + body + payload
    return struct.pack(">I", len(rest) + 4) + rest


def uint(name: str) -> st.SearchStrategy[Field]:
    def of(number: int) -> list[Field]:
        forms = [b"\x70" + struct.pack(">I", number)]
        forms += [b"\x52" + struct.pack("B", number)] if number < 256 else []
        forms += [b"\x43"] if number == 0 else []
        return [(form, f" {name}={number}") for form in forms]

    numbers = st.one_of(st.integers(0, 300), st.integers(0, WRAP - 1), st.sampled_from((0, 2**31, WRAP - 1)))
    return numbers.flatmap(lambda number: st.sampled_from(of(number)))


def truth(say: Callable[[bool], str]) -> st.SearchStrategy[Field]:
    forms = [(b"\x41", True), (b"\x56\x01", True), (b"\x42", False), (b"\x56\x00", False)]
    return st.sampled_from([(octets, say(value)) for octets, value in forms])


def flag(name: str) -> st.SearchStrategy[Field]:
    return optional(truth(lambda value: f" {name}" if value else ""))


def optional(of: st.SearchStrategy[Field]) -> st.SearchStrategy[Field]:
    return st.one_of(st.just((NULL, "")), of)


def unsaid(of: st.SearchStrategy[Field]) -> st.SearchStrategy[Field]:
    """A field that must be what it is, of which nobody wants to know more."""
    return of.map(lambda field: (field[0], ""))


def octets(name: str, code: int, most: int) -> st.SearchStrategy[Field]:
    def of(content: bytes) -> list[Field]:
        forms = [bytes((code | 0x10,)) + struct.pack(">I", len(content)) + content]
        forms += [bytes((code, len(content))) + content] if len(content) < 256 else []
        return [(form, f" {name}={content.hex()}") for form in forms]

    return st.binary(max_size=most).flatmap(lambda content: st.sampled_from(of(content)))


def engine_state(code: int, value: list[object]) -> bytes:
    data = Data()
    data.put_object(Described(ulong(code), value))
    return bytes(data.encode())


def engine_value(octets: bytes) -> object:
    data = Data()
    assert data.decode(octets) == len(octets)
    data.rewind()
    assert data.next()
    return data.get_object()


STATES = (
    b"\0\x53\x24\x45",
    b"\0\x80" + bytes(7) + b"\x24\xc0\x01\x00",
    engine_state(0x23, [1, 2]),
    engine_state(0x25, [Described(ulong(0x1D), [symbol("amqp:not-allowed"), "no" * 200, {symbol("a"): ["b"]}])]),
    engine_state(0x27, [True, False, {symbol("a"): 1}]),
    engine_state(0x34, [b"transaction", Described(ulong(0x24), [])]),
    b"\0\xa3\x12amqp:accepted:list\x45",
)
STATE = optional(st.sampled_from([(state, f" state={state.hex()}") for state in STATES]))
SHORT = st.one_of(st.just((NULL, "")), st.integers(0, 65535).map(
    lambda n: (b"\x60" + struct.pack(">H", n), f" remote_channel={n}")))  # fmt: skip
MODE = st.sampled_from([(NULL, ""), (b"\x50\x00", " settle_mode=0"), (b"\x50\x01", " settle_mode=1")])
SKIPPED = st.sampled_from([(NULL, ""), (b"\x50\x01", ""), (b"\0\x53\x28\x45", ""), (b"\xc1\x01\x00", "")])

TRANSFER = (
    0x14, 1, "transfer",
    (uint("handle"), optional(uint("id")), optional(octets("tag", 0xA0, 32)), optional(uint("format")),
     optional(truth(lambda value: f" settled={value:d}")), flag("more"), MODE, STATE, flag("resume"), flag("aborted"),
     unsaid(flag("batchable"))),
)  # fmt: skip
FLOW = (
    0x13, 4, "flow",
    (optional(uint("next_in")), uint("in_window"), uint("next_out"), uint("out_window"), optional(uint("handle")),
     optional(uint("count")), optional(uint("credit")), optional(uint("available")), flag("drain"), flag("echo"),
     SKIPPED),
)  # fmt: skip
BEGIN = (
    0x11, 4, "begin",
    (SHORT, uint("next_out"), uint("in_window"), unsaid(uint("out_window")), unsaid(uint("handle_max")), SKIPPED,
     SKIPPED, SKIPPED),
)  # fmt: skip
ATTACH = (
    0x12, 3, "attach",
    (octets("name", 0xA1, 300), uint("handle"), truth(lambda value: f" receiver={value:d}"), SKIPPED, SKIPPED, SKIPPED,
     SKIPPED, SKIPPED, SKIPPED, uint("count"), SKIPPED),
)  # fmt: skip
DETACH = (0x16, 1, "detach", (uint("handle"), SKIPPED, SKIPPED))


def known(code: int, words: str, count: int) -> str:
    """What a performative with so many fields says: defaults are said of those that are not there."""
    if code == 0x12 and (count < 10 or "receiver=1" in words):
        return f"{words.partition(' count=')[0]} count=0"
    return words


@given(data=st.data(), wide=st.booleans(), extended=st.booleans())
@pytest.mark.parametrize("performative", [TRANSFER, FLOW, BEGIN, ATTACH, DETACH], ids=lambda one: one[2])
def test_a_performative_says_what_its_fields_say(
    native: ctypes.CDLL, performative: tuple[int, int, str, tuple[st.SearchStrategy[Field], ...]], data: st.DataObject,
    wide: bool, extended: bool,
) -> None:  # fmt: skip
    """In every form of each, with trailing fields absent or null; what is written again says the same."""
    code, least, name, strategies = performative
    count = data.draw(st.integers(least, len(strategies)))
    fields = [data.draw(strategy) for strategy in strategies[:count]]
    payload = data.draw(st.binary(max_size=9)) if code == 0x14 else b""
    whole = frame(code, [octets for octets, _ in fields], payload, wide=wide, extended=extended)
    words = known(code, name + "".join(said for _, said in fields), count)
    words += f" payload={payload.hex()}" if code == 0x14 else ""
    assert tell(native, whole) == words
    if code not in (0x13, 0x14):
        return
    again = ctypes.create_string_buffer(ROOM)
    size = native.rewritten(whole, ctypes.c_size_t(len(whole)), again)
    assert tell(native, again.raw[:size]) == words
    assert size <= len(whole)


@given(
    channel=st.integers(0, 2**16 - 1), handle=st.integers(0, WRAP - 1), number=st.integers(0, WRAP - 1),
    tag=st.binary(min_size=8, max_size=8), settled=st.booleans(),
)  # fmt: skip
@example(channel=0, handle=0, number=0, tag=bytes(8), settled=False)
@example(channel=0, handle=255, number=WRAP - 1, tag=bytes(8), settled=True)
def test_a_links_head_says_what_its_deliveries_of_one_transfer_say(
    native: ctypes.CDLL, channel: int, handle: int, number: int, tag: bytes, settled: bool
) -> None:
    to = ctypes.create_string_buffer(ROOM)
    size = native.headed(
        ctypes.c_uint16(channel), ctypes.c_uint32(handle), ctypes.c_uint32(number), tag, ctypes.c_int(settled), to
    )
    whole = to.raw[:size]
    assert struct.unpack(">IBBH", whole[:8]) == (len(whole), 2, 0, channel)
    words = f"transfer handle={handle} id={number} tag={tag.hex()} format=0 settled={int(settled)}"
    assert tell(native, whole) == f"{words} payload="


@given(
    receiver=st.booleans(), first=uint(""), length=st.integers(0, 2**31 - 1), settled=flag("settled"), state=STATE,
    wide=st.booleans(),
)  # fmt: skip
def test_a_disposition_says_its_range(
    native: ctypes.CDLL, receiver: bool, first: Field, length: int, settled: Field, state: Field, wide: bool
) -> None:
    """Of one delivery without `last`; a range may wrap, and none runs backwards."""
    number = int(first[1].partition("=")[2])
    last = (number + length) % WRAP
    items = [b"\x41" if receiver else b"\x42", first[0], b"\x70" + struct.pack(">I", last) if length else NULL]
    words = f"disposition receiver={receiver:d} first={number} last={last}{settled[1]}{state[1]}"
    assert tell(native, frame(0x15, [*items, settled[0], state[0]], wide=wide)) == words
    backwards = struct.pack(">I", (number - 1 - length) % WRAP)
    assert tell(native, frame(0x15, [*items[:2], b"\x70" + backwards])) == "amqp:invalid-field"


@pytest.mark.parametrize(
    ("code", "items"),
    [
        (0x14, []),
        (0x14, [NULL]),
        (0x14, [b"\x53\x01"]),
        (0x14, [b"\x43", b"\x41"]),
        (0x14, [b"\x43", NULL, b"\xa1\x01a"]),
        (0x14, [b"\x43", NULL, NULL, NULL, b"\x56\x02"]),
        (0x14, [b"\x43", NULL, NULL, NULL, NULL, NULL, b"\x50\x02"]),
        (0x14, [b"\x43", NULL, NULL, NULL, NULL, NULL, NULL, b"\x43"]),
        (0x13, [NULL, b"\x43", b"\x43"]),
        (0x13, [b"\x50\x01", b"\x43", b"\x43", b"\x43"]),
        (0x15, [b"\x41"]),
        (0x15, [b"\x43", b"\x43"]),
        (0x11, [b"\x43", b"\x43", b"\x43", b"\x43"]),
        (0x12, [b"\xa3\x01a", b"\x43", b"\x41"]),
        (0x16, []),
        (0x77, [b"\x43"]),
    ],
)
def test_what_is_missing_or_of_another_type_is_malformed(native: ctypes.CDLL, code: int, items: list[bytes]) -> None:
    """A field that must be there, one that its place does not allow, and a performative that nobody knows."""
    assert tell(native, frame(code, items)) == MALFORMED


def test_a_list_that_holds_fewer_fields_than_it_says_is_malformed(native: ctypes.CDLL) -> None:
    whole = bytearray(frame(0x14, [b"\x43", b"\x43"]))
    whole[13] += 1
    assert tell(native, bytes(whole)) == MALFORMED


# ---- states ----


@pytest.mark.parametrize("state", STATES)
def test_a_state_of_the_engine_is_sound_and_cut_it_is_not(native: ctypes.CDLL, state: bytes) -> None:
    assert native.sound(state, ctypes.c_size_t(len(state)))
    assert not any(native.sound(state[:cut], ctypes.c_size_t(cut)) for cut in range(1, len(state)))


@pytest.mark.parametrize(
    "inside",
    [
        b"\xc0\x02\x02\x43",
        b"\xc0\x03\x01\x43\x43",
        b"\xc1\x02\x01\x43",
        b"\xe0\x02\x05\x60",
        b"\xe0\x01\x00",
        b"\xf0\0\0\0\x05\xff\xff\xff\xff\x60",
        b"\xc0\xff\x01",
        b"\x0f",
        b"\xd0" + b"\xff" * 8,
        b"\xc0\x03\x01" * 20,
    ],
)
def test_a_state_that_lies_is_not_passed_on(native: ctypes.CDLL, inside: bytes) -> None:
    """Counts without items, items without counts, odd maps, arrays without octets, lengths that reach outside."""
    for state in (b"\0\x53\x25" + inside, b"\0\x53\x34\xc0" + bytes((len(inside) + 1, 1)) + inside):
        assert not native.sound(state, ctypes.c_size_t(len(state)))


def shorter(native: ctypes.CDLL, state: bytes, room: int) -> bytes:
    to = ctypes.create_string_buffer(ROOM)
    size = native.shortened(state, ctypes.c_size_t(len(state)), to, room)
    return to.raw[:size]


def test_a_long_state_loses_what_matters_least(native: ctypes.CDLL) -> None:
    """An error first its info, then its description; a modified delivery its annotations; others cannot be shorter."""
    error, modified = STATES[3], STATES[4]
    without_info = engine_state(0x25, [Described(ulong(0x1D), [symbol("amqp:not-allowed"), "no" * 200])])
    name_alone = engine_state(0x25, [Described(ulong(0x1D), [symbol("amqp:not-allowed")])])
    for state, room, expected in (
        (error, 450, without_info),
        (error, 200, name_alone),
        (error, 30, b"\0\x53\x25\x45"),
        (modified, 40, engine_state(0x27, [True, False])),
    ):
        found = shorter(native, state, room)
        assert 0 < len(found) <= room
        assert engine_value(found) == engine_value(expected)
    assert not shorter(native, STATES[5], 10)


# ---- dispositions ----


def outcomes(native: ctypes.CDLL, said: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """First, last and outcome of each DISPOSITION that says outcomes of deliveries."""
    words = ctypes.create_string_buffer(ROOM)
    ids = (ctypes.c_uint32 * len(said))(*(number for number, _ in said))
    states = (ctypes.c_uint8 * len(said))(*(state for _, state in said))
    native.outcomes(ids, states, ctypes.c_size_t(len(said)), words, ctypes.c_size_t(ROOM))
    found = re.findall(r"first=(\d+) last=(\d+) settled state=0053(\w\w)45\n", words.value.decode())
    return [(int(first), int(last), int(state, 16) - 0x24) for first, last, state in found]


@given(
    runs=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.booleans(), st.integers(0, 1)), max_size=9),
    edge=st.sampled_from((0, WRAP - 9)),
)
def test_dispositions_say_each_outcome_once(
    native: ctypes.CDLL, runs: list[tuple[int, int, bool, int]], edge: int
) -> None:
    """In runs up or down, also where the delivery-id wraps; each run makes one DISPOSITION."""
    said = []
    for place, (gap, length, down, state) in enumerate(runs):
        run = [((edge + 20 * place + gap + number) % WRAP, state) for number in range(length)]
        said += reversed(run) if down else run
    found = outcomes(native, said)
    told = [((first + i) % WRAP, state) for first, last, state in found for i in range((last - first) % WRAP + 1)]
    assert sorted(told) == sorted(said)
    assert len(found) == len(runs)


# ---- sessions ----

RECEIVE, HEAR, SEND, GRANT, DRAIN, DRAINED, HOLD, RELEASE, SAY, WITHDRAW = range(10)
NUMBER = st.one_of(st.integers(0, 40), st.integers(0, WRAP - 1))
NEAR = st.integers(-3, 3)
STEP = st.one_of(
    st.tuples(st.just(RECEIVE), st.integers(0, LINKS), st.integers(0, 3), st.integers(0, 2), st.booleans(),
              st.integers(0, 9)),
    st.tuples(st.just(HEAR), st.integers(0, LINKS), st.booleans(), NEAR, NUMBER, st.booleans(), NEAR, NUMBER,
              st.booleans(), st.booleans()),
    st.tuples(st.just(SEND), st.booleans(), st.integers(0, 5)),
    st.tuples(st.just(GRANT), st.integers(0, 1), st.integers(0, 9)),
    st.tuples(st.just(WITHDRAW), st.integers(0, 1), st.integers(0, 9)),
    st.tuples(st.just(DRAIN), st.integers(0, 1)),
    st.tuples(st.just(DRAINED)),
    st.tuples(st.just(HOLD), st.integers(0, 2)),
    st.tuples(st.just(RELEASE), st.integers(0, 9)),
    st.tuples(st.just(SAY), st.integers(0, LINKS)),
)  # fmt: skip


class Pair:
    """A native session and its model, which take the same steps."""

    def __init__(self, native: ctypes.CDLL, window: int, edge: int) -> None:
        self.native, self.words = native, ctypes.create_string_buffer(ROOM)
        links = [Link(edge, number == LINKS - 1, number) for number in range(LINKS)]
        self.model = Session(window, edge, 5, edge, links)
        self.world = ctypes.c_void_p(native.opened(window, edge, 5, edge, edge))

    def native_step(self, what: int, *numbers: int) -> str:
        given = (ctypes.c_uint32 * 9)(*(int(number) % WRAP for number in numbers))
        self.native.act(self.world, what, given, self.words, ctypes.c_size_t(ROOM))
        return self.words.value.decode()

    def step(self, what: int, *how: int) -> None:
        native, model = getattr(self, STEPS[what])(*how)
        assert native == f"{model or ''} | {self.model.words()}"

    def link(self, number: int) -> Link | None:
        return self.model.links[number] if number < LINKS else None

    def receive(self, number: int, naming: int, settled: int, more: bool, abort: int) -> tuple[str, str]:
        link = self.link(number)
        current = link.going_on if link else None
        expected = current if current is not None else self.model.id_in or 0
        named = (None, expected, expected, (expected + 1) % WRAP)[naming]
        said = (None, False, True)[settled]
        words = self.model.receive(link, named, said, more=more, aborted=abort == 0)
        numbers = (number, named is not None, named or 0, said is not None, bool(said), more, abort == 0)
        return self.native_step(RECEIVE, *numbers), words

    def hear(self, number: int, *fields: int) -> tuple[str, str]:
        has_next, next_near, window, has_count, count_near, credit, drain, echo = fields
        link = self.link(number)
        next_in = (self.model.next_out + next_near) % WRAP if has_next else None
        count = ((link.count if link else 0) + count_near) % WRAP if has_count else None
        words = self.model.hear(link, next_in, window, count, credit, drain=bool(drain), echo=bool(echo))
        numbers = (number, has_next, next_in or 0, window, has_count, count or 0, credit, drain, echo)
        return self.native_step(HEAR, *numbers), words

    def send(self, more: bool, abort: int) -> tuple[str, str]:
        words = self.model.send(self.model.links[-1], more=more, aborted=abort == 0)
        return self.native_step(SEND, LINKS - 1, more, abort == 0), words

    def grant(self, number: int, credit: int) -> tuple[str, str]:
        self.model.grant(self.model.links[number], credit)
        return self.native_step(GRANT, number, credit), ""

    def withdraw(self, number: int, credit: int) -> tuple[str, str]:
        self.model.withdraw(self.model.links[number], credit)
        return self.native_step(WITHDRAW, number, credit), ""

    def drain(self, number: int) -> tuple[str, str]:
        self.model.links[number].drain = self.model.links[number].tell = True
        return self.native_step(DRAIN, number), ""

    def drained(self) -> tuple[str, str]:
        self.model.drained(self.model.links[-1])
        return self.native_step(DRAINED, LINKS - 1), ""

    def hold(self, transfers: int) -> tuple[str, str]:
        self.model.held += transfers
        return self.native_step(HOLD, LINKS, transfers), ""

    def release(self, transfers: int) -> tuple[str, str]:
        self.model.release(transfers)
        return self.native_step(RELEASE, LINKS, transfers), ""

    def say(self, number: int) -> tuple[str, str]:
        words = self.model.say(self.link(number))
        return self.native_step(SAY, number), words


STEPS = ("receive", "hear", "send", "grant", "drain", "drained", "hold", "release", "say", "withdraw")


@settings(max_examples=300)
@given(steps=st.lists(STEP, max_size=60), window=st.integers(1, 12), edge=st.sampled_from((0, WRAP - 5, 2**31 - 3)))
def test_a_session_goes_as_its_model(native: ctypes.CDLL, steps: list[tuple[int, ...]], window: int, edge: int) -> None:
    """Whatever comes and goes, right or wrong, and also where each of the numbers wraps."""
    pair = Pair(native, window, edge)
    for what, *how in steps:
        pair.step(what, *how)
    native.closed(pair.world)
