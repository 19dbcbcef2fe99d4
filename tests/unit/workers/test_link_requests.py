"""Links that the core wants, while another one has their name (workers.control.link_requests)."""

from typing import Any

from shm.contract.payloads import OpenLink, Termini, Terminus
from workers.control.link_requests import CROWDED, GONE, POLL_SECONDS, POLLED_MOST, WAITING_MOST, LinkRequests


class Peer:
    """Stands for the pump: one connection, where names are taken until they are given back."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.opened: list[int] = []
        self.there = True
        self.asked = 0

    def taken(self, index: int, generation: int, name: str, outgoing: bool, session: int) -> bool:
        self.asked += 1
        return self.there and name in self.names

    def open_link(self, wish: OpenLink) -> bool:
        if self.there:
            self.names.add(wish.name)
            self.opened.append(wish.request)
        return self.there

    def answer(self, index: int, generation: int, given: Any) -> bool:
        raise AssertionError

    def detach(self, index: int, generation: int, error: Any = None) -> None:
        raise AssertionError


def begun(*names: str, because: object = GONE) -> tuple[LinkRequests, Peer, list[int]]:
    """Wishes for these, numbered from 1 on; those that are refused come in the list."""
    peer, refused = Peer(), list[int]()

    def refuse(request: int, error: object) -> None:
        assert error == because
        refused.append(request)

    link_requests = LinkRequests(None, peer, refuse)  # type: ignore[arg-type]  # nothing is dialled
    termini = Termini(Terminus(), Terminus())
    for number, name in enumerate(names, 1):
        assert link_requests.open_link(OpenLink(1, 1, number, name, True, None, None, 7, termini=termini))
    return link_requests, peer, refused


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
    assert peer.asked == len(names)
    assert refused == []


def test_few_wait_for_one_name() -> None:
    """A client that attaches and detaches again and again leaves no more than that; others of the name were first."""
    link_requests, peer, refused = begun(*["x"] * (WAITING_MOST + 3), "y", because=CROWDED)
    assert refused == [WAITING_MOST + 2, WAITING_MOST + 3]
    peer.names.discard("x")
    link_requests.step()
    assert peer.opened == [1, WAITING_MOST + 4, 2]
