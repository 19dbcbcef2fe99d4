"""DISPOSITIONs of the data lane, and its sessions step by step against a model."""

import ctypes
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.lane import WRAP, Link, Session

ROOM = 1 << 14
LINKS = 3  # of lane.c; the last goes out

# ---- dispositions ----


def outcomes(lane: ctypes.CDLL, said: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """First, last and outcome of each DISPOSITION that says outcomes of deliveries."""
    words = ctypes.create_string_buffer(ROOM)
    ids = (ctypes.c_uint32 * len(said))(*(number for number, _ in said))
    states = (ctypes.c_uint8 * len(said))(*(state for _, state in said))
    lane.outcomes(ids, states, ctypes.c_size_t(len(said)), words, ctypes.c_size_t(ROOM))
    found = re.findall(r"first=(\d+) last=(\d+) settled state=0053(\w\w)45\n", words.value.decode())
    return [(int(first), int(last), int(state, 16) - 0x24) for first, last, state in found]


@given(
    runs=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5), st.booleans(), st.integers(0, 1)), max_size=9),
    edge=st.sampled_from((0, WRAP - 9)),
)
def test_dispositions_say_each_outcome_once(
    lane: ctypes.CDLL, runs: list[tuple[int, int, bool, int]], edge: int
) -> None:
    """In runs up or down, also where the delivery-id wraps; each run makes one DISPOSITION."""
    said = []
    for place, (gap, length, down, state) in enumerate(runs):
        run = [((edge + 20 * place + gap + number) % WRAP, state) for number in range(length)]
        said += reversed(run) if down else run
    found = outcomes(lane, said)
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

    def __init__(self, lane: ctypes.CDLL, window: int, edge: int) -> None:
        self.lane, self.words = lane, ctypes.create_string_buffer(ROOM)
        links = [Link(edge, number == LINKS - 1, number) for number in range(LINKS)]
        self.model = Session(window, edge, 5, edge, links)
        self.world = ctypes.c_void_p(lane.opened(window, edge, 5, edge, edge))

    def native_step(self, what: int, *numbers: int) -> str:
        given = (ctypes.c_uint32 * 9)(*(int(number) % WRAP for number in numbers))
        self.lane.act(self.world, what, given, self.words, ctypes.c_size_t(ROOM))
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
def test_a_session_goes_as_its_model(lane: ctypes.CDLL, steps: list[tuple[int, ...]], window: int, edge: int) -> None:
    """Whatever comes and goes, right or wrong, and also where each of the numbers wraps."""
    pair = Pair(lane, window, edge)
    for what, *how in steps:
        pair.step(what, *how)
    lane.closed(pair.world)
