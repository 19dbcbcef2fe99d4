"""A storm of HTTP clients costs a bounded number of operations, and each turn few: counted, not timed."""

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from routerd.exporter import server as http
from routerd.exporter.server import Answer, Request
from tests.support.beds.http import Bed

CLIENTS = 100  # as many as wait in the queue of the bed's socket


class Counted(Bed):
    """A bed that counts the pages made and the calls of the selector."""

    def __init__(self) -> None:
        super().__init__(self.make)
        self.made: list[str] = []
        self.selected = 0
        selector = self.server._selector
        for name in ("register", "modify", "unregister"):
            setattr(selector, name, self.counting(getattr(selector, name)))

    def make(self, request: Request) -> Answer:
        self.made.append(request.path)
        return Answer(request.path.encode())

    def counting(self, call):  # type: ignore[no-untyped-def]  # whatever it is
        def counted(*arguments: object) -> object:
            self.selected += 1
            return call(*arguments)

        return counted

    def crowd(self, says: str) -> list[socket.socket]:
        """Clients that say that, with their number in it."""
        return [self.client(says.replace("#", str(n)).encode()) for n in range(CLIENTS)]


@pytest.fixture
def bed() -> Iterator[Counted]:
    bed = Counted()
    with closing(bed.server):
        yield bed
    for client in bed.clients:
        client.close()


def asking(path: str) -> str:
    return f"GET {path} HTTP/1.1\r\nHost: router\r\n\r\n"


@pytest.mark.parametrize("says", ["", asking("/metrics")])
def test_clients_that_are_gone_cost_nothing(bed: Counted, says: str) -> None:
    """Whether they have asked or not: no page is made, and no place in the table is left."""
    for client in bed.crowd(says):
        client.close()
    bed.turn(2 + CLIENTS // http.ACCEPTED_MOST)
    assert bed.made == []
    assert len(bed.server) == 0
    assert bed.selected == 0


def test_all_who_ask_for_a_page_get_the_same_one(bed: Counted) -> None:
    """One is made for those who asked before it; who asks later gets a new one."""
    clients = bed.crowd(asking("/metrics"))
    turns = 1 + CLIENTS // http.ACCEPTED_MOST
    bed.turn(turns)
    assert bed.made == ["/metrics"] * turns
    assert all(bed.answer(client).endswith(b"/metrics") for client in clients)
    assert bed.ask(asking("/metrics").encode()).endswith(b"/metrics")
    assert bed.made == ["/metrics"] * (turns + 1)


def test_a_turn_makes_few_pages(bed: Counted) -> None:
    """Between two turns the exporter reports that it lives; in the end all have their pages, in their order."""
    clients = bed.crowd(asking("/#"))
    for turn in range(1, 1 + CLIENTS // http.MADE_MOST):
        bed.turn(1)
        assert len(bed.made) == turn * http.MADE_MOST
    assert bed.made == [f"/{n}" for n in range(CLIENTS)]
    assert all(bed.answer(client).endswith(f"/{n}".encode()) for n, client in enumerate(clients))


def test_a_turn_accepts_and_serves_few_clients(bed: Counted) -> None:
    """However many come, or speak, at once."""
    clients = bed.crowd("")
    bed.turn(1)
    assert len(bed.server) == http.ACCEPTED_MOST
    bed.turn(1)
    assert len(bed.server) == CLIENTS
    for client in clients:
        client.close()
    bed.turn(1)
    assert len(bed.server) == CLIENTS - http.SERVED_MOST
    bed.turn(1)
    assert len(bed.server) == 0


def test_silent_clients_make_room_at_once(bed: Counted) -> None:
    """A storm of them does not last: each that comes takes the place of the oldest one, and who asks is answered."""
    patient = bed.client(asking("/patient").encode()[:-2])
    for n in range(http.MOST + 20):
        bed.client()
        bed.turn(1)
        if n == 10:
            patient.sendall(b"\r\n")
            assert bed.answer(patient).endswith(b"/patient")
    assert len(bed.server) == http.MOST
    assert bed.server.refused["crowded"] == 21
    assert bed.ask(asking("/late").encode()).endswith(b"/late")


def test_who_has_asked_is_not_sent_away_for_who_comes(bed: Counted) -> None:
    """Pages that wait to be made, or to be taken, keep their clients; the newcomers wait."""
    for n in range(http.MOST):
        bed.client(asking(f"/{n}").encode())
        if n % CLIENTS == CLIENTS - 1:
            bed.turn(2)
    bed.turn(2)
    assert len(bed.server) == http.MOST
    late = bed.client(asking("/late").encode())
    bed.turn(http.MOST // http.MADE_MOST)
    assert bed.server.refused["crowded"] == 0
    assert len(bed.made) == http.MOST
    bed.clients[0].close()
    assert bed.answer(late).endswith(b"/late")


@contextmanager
def few_descriptors(free: int) -> Iterator[None]:
    """This process may open so many more files."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    holes = [os.dup(0)]
    while holes[-1] < highest + 1:
        holes.append(os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (holes[-1] + 1 + free, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for hole in holes:
            os.close(hole)


def test_without_descriptors_nobody_is_accepted_for_a_while(bed: Counted) -> None:
    """Who comes wakes the exporter no more than ten times a second, and is answered when there are some again."""
    late = bed.client(asking("/late").encode())
    with few_descriptors(0):
        bed.turn(1)
        assert len(bed.server) == 0
        assert bed.server._selector.select(0) == []
    bed.turn(3, http.SHORT_SECONDS)
    assert len(bed.server) == 0
    assert bed.answer(late).endswith(b"/late")


def test_silent_clients_leave_their_descriptors_to_who_asks(bed: Counted) -> None:
    """The oldest go first; who has come is not sent away because there is no descriptor for one more."""
    for _ in range(6):
        bed.client()
    late = bed.client(asking("/late").encode())
    with few_descriptors(3):
        assert bed.answer(late).endswith(b"/late")


@pytest.mark.parametrize("says", ["", asking("/large")])
def test_clients_leave_descriptors_for_what_pages_are_made_from(says: str) -> None:
    """Silent ones, or those that take nothing: they are fewer then, and after them as many as ever."""
    bed = Bed()
    with closing(bed.server):
        for _ in range(10):
            bed.client(says.encode())
        with few_descriptors(http.SPARE + 3):
            bed.turn(20)
            assert len(bed.server) == 4
            for opened in [os.dup(0) for _ in range(http.SPARE - 2)]:
                os.close(opened)
        for client in bed.clients:
            client.close()
        bed.turn(20, http.CROWDED_SECONDS)
        bed.turn(20)
        assert len(bed.server) == 0
        clients = [bed.client() for _ in range(10)]
        bed.turn(2)
        assert len(bed.server) == len(clients)
        for client in clients:
            client.close()
