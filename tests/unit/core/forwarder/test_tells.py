"""Many copies of a message hear in portions what its sender does, and hear the same as few do at once."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import contract as n
from core.forwarder.forward import NOTHING
from core.forwarder.link_terms import LinkTerms
from tests.support.beds.forwarding import INCOMING, RECEIVER, SENDER, Bed

FEW, MANY = 1, 30  # receivers of each kind: 64 copies are few (access.h)
KINDS = 3  # what those of one kind do is the same
RESENT = (n.W_SEND, n.W_CONTINUE, n.W_UPDATE)
Heard = tuple[int, int, int, int]  # type, flags, state, length


class Audience:
    """A sender with one multicast message, and so many receivers of each kind, which hear the same if all is ``alike``.

    What comes together is handled in batches, so those of a kind may hear it in another order.
    """

    def __init__(self, of_a_kind: int, alike: bool = True) -> None:
        self.alike = alike
        self.bed = bed = Bed("multicast")
        self.count = of_a_kind * KINDS
        for link in range(1, self.count):
            assert bed.forwarder.add_link(RECEIVER, link, 1, LinkTerms(True, bed.address, 250))
        self.copies: dict[int, int] = {}  # the core's handles, by link
        self.length = 5
        self.settled: set[int] = set()  # links whose receivers have settled, or whose worker is done
        self.block = bed.arena.write(b"hello")
        self.hears: dict[int, list[Heard]] = defaultdict(list)  # by kind: what each of it has heard
        self.sender_hears: list[Heard] = []
        self.says(type=n.A_DELIVER, priority=4, block=self.block, length=5, time=1)
        self.listen()

    def says(self, **fields: int) -> None:
        """What the sender says, which is not handled yet."""
        assert self.bed.actions[SENDER].push(n.pack(link_gen=1, peer=INCOMING, **fields))
        self.bed.actions[SENDER].publish()

    def of_kind(self, kind: int, **fields: int) -> None:
        """What receivers of a kind say who have not settled."""
        for link in range(kind, self.count, KINDS):
            if link in self.copies and link not in self.settled:
                assert self.bed.actions[RECEIVER].push(n.pack(delivery=self.copies[link], **fields))
                if fields["type"] == n.A_DONE or fields.get("flags", 0) & n.F_SETTLED:
                    self.settled.add(link)
        self.bed.actions[RECEIVER].publish()

    def listen(self) -> None:
        """Let all of it happen."""
        each: dict[int, list[Heard]] = defaultdict(list)
        assert self.bed.step() == NOTHING
        for r in self.bed.heard(RECEIVER, 0):
            if r["type"] not in RESENT:
                continue
            if r["type"] == n.W_SEND:
                self.copies[r["link"]] = r["peer"]
            each[r["link"]].append((r["type"], r["flags"], r["state"], r["length"]))
        for kind in range(KINDS):
            found = {tuple(each[link]) for link in range(kind, self.count, KINDS)}
            assert len(found) == 1 or not self.alike, "those of a kind hear the same"
            self.hears[kind] += found.pop()
        for r in self.bed.heard(SENDER, n.W_UPDATE):
            self.sender_hears.append((r["type"], r["flags"], r["state"], 0))

    def do(self, step: str, kind: int) -> None:
        match step:
            case "more" | "whole":
                self.length += 10
                flags = n.F_COMPLETE if step == "whole" else 0
                self.says(type=n.A_CONTINUE, flags=flags, length=self.length)
            case "abort":
                self.says(type=n.A_CONTINUE, flags=n.F_ABORTED, length=self.length)
            case "state":
                self.says(type=n.A_UPDATE, flags=n.F_IN, state=n.S_ACCEPTED)
            case "settle":
                self.says(type=n.A_UPDATE, flags=n.F_IN | n.F_SETTLED, state=n.S_ACCEPTED)
            case "sender goes":
                self.bed.forwarder.remove_link(SENDER, 0, 1)
            case "outcome":
                self.of_kind(kind, type=n.A_UPDATE, state=n.S_RELEASED if kind else n.S_ACCEPTED)
            case "settled":
                self.of_kind(kind, type=n.A_UPDATE, flags=n.F_SETTLED, state=n.S_ACCEPTED)

    def end(self) -> None:
        """All who are left settle, and nothing is left."""
        self.says(type=n.A_CONTINUE, flags=n.F_ABORTED, length=self.length)
        self.says(type=n.A_UPDATE, flags=n.F_IN | n.F_SETTLED, state=n.S_ACCEPTED)
        self.listen()
        for kind in range(KINDS):
            self.of_kind(kind, type=n.A_UPDATE, flags=n.F_SETTLED, state=n.S_ACCEPTED)
        self.listen()
        counts = self.bed.forwarder.counts()
        assert counts["incoming"] == counts["outgoing"] == 0


STEPS = ["more", "whole", "abort", "state", "settle", "sender goes", "outcome", "settled"]
SCRIPTS = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, KINDS - 1)), max_size=10)


@settings(max_examples=150, deadline=None)
@given(script=SCRIPTS)
def test_many_hear_what_few_do(script: list[tuple[str, int]]) -> None:
    """Whatever sender and receivers do, one after the other."""
    few, many = Audience(FEW), Audience(MANY)
    for step, kind in script:
        for one in (few, many):
            one.do(step, kind)
            one.listen()
        assert many.hears == few.hears
        assert many.sender_hears == few.sender_hears
    few.end()
    many.end()


@settings(max_examples=150, deadline=None)
@given(script=SCRIPTS)
def test_nothing_is_left_whatever_comes_together(script: list[tuple[str, int]]) -> None:
    """The next thing happens while some copies have not heard of the one before."""
    many = Audience(MANY, alike=False)
    for step, kind in script:
        many.do(step, kind)
    many.listen()
    many.end()


@pytest.mark.parametrize("outcome", [True, False])
def test_a_sender_that_settles_has_all_of_its_copies_told(outcome: bool) -> None:
    """Also of more copies than a portion has: those who have said an outcome are over, the others go on settled."""
    many = Audience(1000)
    if outcome:
        for kind in range(KINDS):
            many.do("outcome", kind)
        many.listen()
        assert many.sender_hears == [(n.W_UPDATE, n.F_IN, n.S_ACCEPTED, 0)]
    many.do("whole", 0)
    many.do("settle", 0)
    many.listen()
    told = many.hears[0][-2:]
    assert told == [(n.W_CONTINUE, n.F_COMPLETE, 0, 15), (n.W_UPDATE, n.F_SETTLED, n.S_ACCEPTED, 0)]
    assert many.bed.forwarder.counts()["outgoing"] == (0 if outcome else many.count)
    many.end()
