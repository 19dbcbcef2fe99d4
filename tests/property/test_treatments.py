"""Which outgoing link a message goes to, against a plain model of each treatment."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import contract as n
from core.addresses.addresses import TREATMENTS
from core.forwarder.forward import NOTHING, Forwarder
from core.forwarder.link_terms import LinkTerms
from tests.model.memory import Memory

ARENA = 128 * 1024


class Bed:
    """A forwarder whose one worker has a sender (link 0) and receivers (links 1...) on one address."""

    def __init__(self, treatment: str) -> None:
        memory = Memory(1, n.RING_CAPACITY, ARENA)
        rings, control, arenas = memory.rings, memory.control, memory.arenas
        self.forwarder = Forwarder(1, control, rings, arenas, [-1])
        self.actions = n.Producer(rings, n.action_ring_offset(0))
        self.work = n.Consumer(rings, n.work_ring_offset(0))
        self.address = self.forwarder.add_address(TREATMENTS.index(treatment))
        assert self.forwarder.add_link(0, 0, 1, LinkTerms(False, self.address, 250))
        self.now = 0
        self.attached = 0

    def act(self, **fields: int) -> list[dict[str, int]]:
        assert self.actions.push(n.pack(**fields))
        self.actions.publish()
        self.now += 1
        assert self.forwarder.step(self.now) == NOTHING
        found = []
        while (record := self.work.pop()) is not None:
            found.append(n.unpack(record))
        self.work.give_back()
        return [r for r in found if r["type"] == n.W_SEND]

    def attach(self, capacity: int) -> int:
        self.attached += 1
        assert self.forwarder.add_link(0, self.attached, 1, LinkTerms(True, self.address, capacity))
        return self.attached

    def send(self) -> list[dict[str, int]]:
        return self.act(type=n.A_DELIVER, flags=n.F_COMPLETE, link=0, link_gen=1, block=0, peer=1 << 32)

    def settle(self, sent: dict[str, int]) -> None:
        self.act(type=n.A_UPDATE, flags=n.F_SETTLED, state=n.S_ACCEPTED, delivery=sent["peer"])


MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("attach"), st.integers(1, 4)),
        st.tuples(st.just("detach"), st.integers(0, 9)),
        st.tuples(st.just("settle"), st.integers(0, 99)),
        st.tuples(st.just("send"), st.just(0)),
        st.tuples(st.just("send"), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(MOVES)
def test_closest_takes_turns(moves: list[tuple[str, int]]) -> None:
    """Without attaches and detaches in between, each receiver gets one message before any gets a second."""
    bed = Bed("closest")
    links: list[int] = []
    seen: list[int] = []
    for move, value in moves:
        if move == "attach":
            links.append(bed.attach(value))
            seen.clear()
        elif move == "detach" and links:
            bed.forwarder.remove_link(0, links.pop(value % len(links)), 1)
            seen.clear()
        elif move == "send":
            sent = bed.send()
            assert len(sent) == (1 if links else 0)
            seen.extend(r["link"] for r in sent)
            if seen:
                turn = seen[-len(links) :]
                assert len(set(turn)) == len(turn)
                assert set(turn) <= set(links)


def expected_balanced(counts: dict[int, int], capacity: dict[int, int]) -> set[int]:
    """Idle links; else the least busy of those below their capacity; else the least busy of all."""
    idle = {link for link, count in counts.items() if count == 0}
    if idle:
        return idle
    below = {link: count for link, count in counts.items() if count < capacity[link]} or counts
    return {link for link, count in below.items() if count == min(below.values())}


def follow_balanced(moves: list[tuple[str, int]], first: list[int]) -> None:
    """Attach the ``first`` receivers, with these capacities, and compare each message's receiver with the model's."""
    bed = Bed("balanced")
    capacity: dict[int, int] = {}
    counts: dict[int, int] = {}
    live: list[dict[str, int]] = []
    for move, value in [*(("attach", one) for one in first), *moves]:
        if move == "attach":
            link = bed.attach(value)
            capacity[link], counts[link] = value, 0
        elif move == "detach" and counts:
            link = sorted(counts)[value % len(counts)]
            del counts[link]
            bed.forwarder.remove_link(0, link, 1)
            live = [r for r in live if r["link"] != link]
        elif move == "settle" and live:
            done = live.pop(value % len(live))
            counts[done["link"]] -= 1
            bed.settle(done)
        elif move == "change":
            for treatment in ("closest", "balanced")[value % 2 :]:
                bed.forwarder.set_treatment(bed.address, TREATMENTS.index(treatment))
        elif move == "send":
            sent = bed.send()
            assert bool(sent) == bool(counts)
            for r in sent:
                assert r["link"] in expected_balanced(counts, capacity)
                counts[r["link"]] += 1
                live.append(r)


@settings(max_examples=200, deadline=None)
@given(MOVES)
def test_balanced_takes_the_least_busy(moves: list[tuple[str, int]]) -> None:
    """The link with the fewest deliveries not settled, among those below their capacity if there are any."""
    follow_balanced(moves, [])


MANY_MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("attach"), st.integers(1, 4)),
        st.tuples(st.just("detach"), st.integers(0, 19)),
        st.tuples(st.just("settle"), st.integers(0, 99)),
        st.tuples(st.just("change"), st.integers(0, 1)),
        *(st.tuples(st.just("send"), st.just(0)) for _ in range(6)),
    ),
    max_size=250,
)


@settings(max_examples=200, deadline=None)
@given(MANY_MOVES, st.lists(st.integers(1, 5), min_size=7, max_size=14))
def test_balanced_takes_the_least_busy_of_many(moves: list[tuple[str, int]], first: list[int]) -> None:
    """Also where they are too many to look at each, and while they become so, or cease to be."""
    follow_balanced(moves, first)


@pytest.mark.parametrize("receivers", [3, 9, 50])
def test_balanced_gives_idle_receivers_their_turns(receivers: int) -> None:
    """However many they are, each gets one message before any gets a second."""
    bed = Bed("balanced")
    links = [bed.attach(250) for _ in range(receivers)]
    order = []
    for _ in range(2 * receivers):
        (sent,) = bed.send()
        order.append(sent["link"])
        bed.settle(sent)
    assert order == links * 2
    assert sorted(bed.send()[0]["link"] for _ in links) == links


def test_balanced_rotates_among_idle_links() -> None:
    """Idle receivers get their messages in turn; with ties among busy ones the first found gets it."""
    bed = Bed("balanced")
    links = [bed.attach(250) for _ in range(3)]
    order = []
    for _ in range(6):
        (sent,) = bed.send()
        order.append(sent["link"])
        bed.settle(sent)
    assert order == links * 2
    assert [bed.send()[0]["link"] for _ in range(4)] == [*links, links[0]]


@settings(max_examples=100, deadline=None)
@given(MOVES)
def test_multicast_copies_to_all(moves: list[tuple[str, int]]) -> None:
    """One copy for each receiver, all of one content."""
    bed = Bed("multicast")
    links: list[int] = []
    for move, value in moves:
        if move == "attach":
            links.append(bed.attach(value))
        elif move == "detach" and links:
            bed.forwarder.remove_link(0, links.pop(value % len(links)), 1)
        elif move == "send":
            sent = bed.send()
            assert sorted(r["link"] for r in sent) == sorted(links)
            assert len({(r["arena"], r["block"]) for r in sent}) == (1 if links else 0)


def test_unavailable_takes_nothing() -> None:
    """Even with receivers (attached before a change of configuration) nothing is forwarded."""
    bed = Bed("unavailable")
    bed.attach(250)
    assert bed.send() == []
