"""Links that the core wants, while another one has their name (workers.control.link_requests)."""

from typing import Any

import pytest

from shm.contract.payloads import NEVER, OpenLink, Termini, Terminus
from workers.control.link_requests import (
    CROWDED,
    GONE,
    LASTING_MOST,
    LOCKED,
    PATIENCE,
    POLL_SECONDS,
    POLLED_MOST,
    WAITING_MOST,
    LinkRequests,
)

LASTING = Terminus(expires=True, expiry=NEVER)
BRIEF = Terminus(durability=2)  # it has no expiry policy: it ends with its session


class Peer:
    """Stands for the pump: one connection, where names are taken until they are given back.

    Links end at once, and the peer has still to answer, unless they are ``attached``.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.attached: set[str] = set()
        self.opened: list[int] = []
        self.called: list[str] = []  # the names of those
        self.there = True
        self.asked = 0
        self.now = 5.0

    def clock(self) -> float:
        return self.now

    def taken(self, index: int, generation: int, name: str, outgoing: bool) -> bool:
        self.asked += 1
        return self.there and name in self.names

    def live(self, index: int, generation: int, name: str, outgoing: bool) -> bool:
        return self.there and name in self.attached

    def open_link(self, wish: OpenLink) -> tuple[str, str] | None:
        if not self.there:
            return GONE
        self.names.add(wish.name)
        self.opened.append(wish.request)
        self.called.append(wish.name)
        return None

    def answer(self, index: int, generation: int, given: Any) -> bool:
        raise AssertionError

    def detach(self, index: int, generation: int, error: Any = None) -> None:
        raise AssertionError

    def give_up(self, index: int, generation: int, error: Any) -> None:
        raise AssertionError


def begun(*names: str, because: object = GONE) -> tuple[LinkRequests, Peer, list[int]]:
    """Wishes for these, numbered from 1 on; those that are refused come in the list."""
    peer, refused = Peer(), list[int]()

    def refuse(request: int, error: object) -> None:
        assert error == because
        refused.append(request)

    link_requests = LinkRequests(None, peer, refuse, peer.clock)  # type: ignore[arg-type]  # nothing is dialled
    for number, name in enumerate(names, 1):
        ask(link_requests, number, name)
    return link_requests, peer, refused


def ask(link_requests: LinkRequests, number: int, name: str, target: Terminus = BRIEF, outgoing: bool = True) -> None:
    termini = Termini(LASTING, target) if outgoing else Termini(target, LASTING)
    link_requests.open_link(OpenLink(1, 1, number, name, outgoing, None, None, 7, termini=termini))


def test_a_name_is_one_links_at_a_time_and_no_other_waits_for_it() -> None:
    link_requests, peer, refused = begun("x", "x", "y", "x")
    assert peer.opened == [1, 3]
    assert link_requests.wait(9.0) == POLL_SECONDS
    link_requests.step()
    assert peer.opened == [1, 3]
    for number, more in ((2, POLL_SECONDS), (4, 9.0)):
        peer.names.discard("x")
        link_requests.step()
        link_requests.step()
        assert peer.opened[-1] == number
        assert link_requests.wait(9.0) == more
    assert refused == []


def test_what_waits_is_refused_with_its_connection_and_forgotten_with_its_core() -> None:
    link_requests, peer, refused = begun("x", "x", "x")
    peer.there = False
    link_requests.step()
    assert refused == [2]
    link_requests.forget()
    link_requests.step()
    assert (refused, link_requests.wait(9.0)) == ([2], 9.0)


def test_many_names_that_wait_take_turns() -> None:
    """However many wait, a poll looks at few of them; one that becomes free is found when its turn comes."""
    names = [f"n{i}" for i in range(10 * POLLED_MOST)]
    link_requests, peer, refused = begun(*names, *names)
    peer.names.discard(names[-1])
    peer.asked = 0
    for _ in range(10):
        assert peer.opened[-1] == len(names)
        link_requests.step()
    assert peer.opened[-1] == 2 * len(names)
    assert peer.asked == len(names) + 1  # the one that is free is asked once more
    assert refused == []


def test_few_wait_for_one_name() -> None:
    """A client that attaches and detaches again and again leaves no more than that; others of the name were first."""
    link_requests, peer, refused = begun(*["x"] * (WAITING_MOST + 3), "y", because=CROWDED)
    assert refused == [WAITING_MOST + 2, WAITING_MOST + 3]
    peer.names.discard("x")
    link_requests.step()
    assert peer.opened == [1, WAITING_MOST + 4, 2]


@pytest.mark.parametrize("outgoing", [True, False])
def test_a_link_whose_name_another_one_is_attached_with_gets_its_own(outgoing: bool) -> None:
    """The broker would take the name from the one that has it, whosever it is."""
    link_requests, peer, refused = begun("x")
    peer.attached.add("x")
    ask(link_requests, 2, "x", BRIEF, outgoing)
    assert peer.called == ["x", "x@2"]
    assert link_requests.wait(9.0) == 9.0
    assert refused == []


@pytest.mark.parametrize("outgoing", [True, False])
@pytest.mark.parametrize("lasting", [LASTING, Terminus(timeout=9)])
def test_what_the_broker_keeps_by_its_name_waits_for_it(outgoing: bool, lasting: Terminus) -> None:
    """Two clients of one container-id, or one whose lost connection is not known to be lost yet."""
    link_requests, peer, refused = begun("x", because=LOCKED)
    peer.attached.add("x")
    ask(link_requests, 2, "x", lasting, outgoing)
    link_requests.step()
    assert peer.opened == [1]
    peer.attached.clear()
    link_requests.step()
    assert peer.opened == [1]  # the broker has to answer the DETACH
    peer.names.clear()
    link_requests.step()
    assert peer.called == ["x", "x"]
    assert refused == []


def test_whoever_waits_too_long_for_an_attached_link_is_refused() -> None:
    """One that waits for an answer of the broker is not: the broker is alive as long as its connection is."""
    link_requests, peer, refused = begun("x", "y", "y", because=LOCKED)
    peer.attached.add("x")
    ask(link_requests, 4, "x", LASTING)
    peer.now += PATIENCE - 1
    ask(link_requests, 5, "x", LASTING)
    link_requests.step()
    assert refused == []
    peer.now += 1
    link_requests.step()
    assert refused == [4]
    peer.now += PATIENCE
    link_requests.step()
    assert refused == [4, 5]
    assert peer.opened == [1, 2]
    peer.names.clear()
    link_requests.step()
    assert peer.opened == [1, 2, 3]


def test_a_link_that_waits_for_its_name_gets_another_one_when_somebody_else_has_it() -> None:
    link_requests, peer, refused = begun("x", "x", "x")
    peer.attached.add("x")
    link_requests.step()
    assert peer.called == ["x", "x@2", "x@3"]
    assert link_requests.wait(9.0) == 9.0
    assert refused == []


@pytest.mark.parametrize("because", [LOCKED, CROWDED])
def test_few_wait_for_a_name_that_another_link_may_have_for_long(because: object) -> None:
    """The core has a bounded number of requests sent to a broker; these would leave no room for others."""
    link_requests, peer, refused = begun(*map(str, range(LASTING_MOST + 1)), because=because)
    if because == LOCKED:
        peer.attached.update(peer.names)
    opened = len(peer.opened)
    for number in range(opened):
        ask(link_requests, opened + 1 + number, str(number), LASTING)
    assert refused == [2 * opened]
    ask(link_requests, 2 * opened + 1, "other", LASTING)
    assert peer.called[-1] == "other"
    for name in ("0", "1"):
        peer.names.discard(name)
        peer.attached.discard(name)
    link_requests.step()
    ask(link_requests, 2 * opened + 2, "2", LASTING)
    assert refused == [2 * opened]


@pytest.mark.parametrize("goes", ["patience", "core", "connection"])
def test_what_waits_no_more_leaves_its_place_to_others(goes: str) -> None:
    names = [str(number) for number in range(LASTING_MOST)]
    link_requests, peer, refused = begun(*names, because=GONE if goes == "connection" else LOCKED)
    peer.attached.update(names)
    for number, name in enumerate(names, LASTING_MOST + 1):
        ask(link_requests, number, name, LASTING)
    peer.now += PATIENCE if goes == "patience" else 0
    peer.there = goes != "connection"
    if goes == "core":
        link_requests.forget()
    for _ in range(LASTING_MOST // POLLED_MOST + 1):
        link_requests.step()
    assert len(refused) == (0 if goes == "core" else LASTING_MOST)
    assert not link_requests._lasting
    assert link_requests.wait(9.0) == 9.0
