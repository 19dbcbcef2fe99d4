"""A worker's listeners as the supervisor changes them, with a pump that only remembers."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shm.contract.control import ListenerSetup
from shm.contract.ockam import OckamSetup
from shm.contract.security import TlsSetup
from shm.contract.source_routes import Stop
from workers.control.listeners import Listeners, Terms, terms
from workers.control.tls import CertificateError

TLS = TlsSetup("p", cert_file="/no/such")


class FakePump:
    """Places by number, with descriptor and terms; has room for three."""

    def __init__(self) -> None:
        self.places: dict[int, tuple[int, Terms]] = {}

    def add_listener(self, fd: int, *terms: *Terms) -> int:
        place = next((i for i in range(3) if i not in self.places), None)
        if place is None:
            raise ValueError("full")
        self.places[place] = fd, terms
        return place

    def change_listener(self, place: int, *terms: *Terms) -> None:
        self.places[place] = self.places[place][0], terms

    def remove_listener(self, place: int) -> None:
        os.close(self.places.pop(place)[0])


class Home:
    """Listeners with real descriptors that the test can count."""

    def __init__(self) -> None:
        self.pump = FakePump()
        self.known: dict[int, ListenerSetup] = {}
        self.listeners = Listeners(self.pump, self.known)
        self.given: list[int] = []

    def give(self, count: int) -> list[int]:
        """So many descriptors as they come with a packet."""
        fresh = [os.open(os.devnull, os.O_RDONLY) for _ in range(count)]
        self.given += fresh
        return fresh

    def open(self) -> set[int]:
        return {fd for fd in self.given if _is_open(fd)}

    def served(self) -> set[int]:
        return {terms[0] for _, terms in self.pump.places.values()}


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@pytest.fixture
def home() -> Iterator[Home]:
    home = Home()
    yield home
    for fd in home.open():
        os.close(fd)


def one(number: int, sockets: int = 1, **more: Any) -> ListenerSetup:
    return ListenerSetup(name=f"l{number}", fds=[-1] * sockets, number=number, **more)


def test_a_new_listener_gets_its_sockets(home: Home) -> None:
    """In the order of the packet, each one its place."""
    fds = home.give(3)
    home.listeners.change([one(1), one(2, sockets=2)], fds)
    assert [(fd, terms[0]) for fd, terms in home.pump.places.values()] == [(fds[0], 1), (fds[1], 2), (fds[2], 2)]
    assert home.known.keys() == {1, 2}


def test_what_stays_keeps_its_socket_and_gets_new_terms(home: Home) -> None:
    """The duplicate that came again is closed."""
    (first,) = home.give(1)
    home.listeners.change([one(1)], [first])
    home.listeners.change([one(1, link_capacity=7)], home.give(1))
    assert home.pump.places == {0: (first, terms(one(1, link_capacity=7)))}
    assert home.known[1].link_capacity == 7
    assert home.open() == {first}


@pytest.mark.parametrize("other", [{"table": "t"}, {"ockam": OckamSetup(Stop(0, b"o", "0#o"))}, {"websockets": True}])
def test_a_listener_of_other_connections_gets_another_place(home: Home, other: dict[str, Any]) -> None:
    """With its new socket: connections of the former place keep that place's terms."""
    home.listeners.change([one(1)], home.give(1))
    (second,) = home.give(1)
    removed: list[int] = []
    home.pump.remove_listener = removed.append  # type: ignore[method-assign]  the place stays
    home.listeners.change([one(1, **other)], [second])
    assert removed == [0]
    assert home.pump.places[1][0] == second


def test_what_is_not_named_is_closed(home: Home) -> None:
    """Its connections still find what they were accepted on."""
    home.listeners.change([one(1), one(2)], home.give(2))
    home.listeners.change([one(2)], home.give(1))
    assert home.served() == {2}
    assert 1 in home.known
    assert len(home.open()) == 1


def test_a_full_pump_leaves_a_listener_to_others(home: Home) -> None:
    """It does not take the worker down."""
    home.listeners.change([one(n) for n in range(5)], home.give(5))
    assert len(home.pump.places) == 3
    assert len(home.open()) == 3


def test_a_socket_that_cannot_be_served_is_out_of_the_pump(home: Home) -> None:
    """Before it is closed: else epoll goes on with a descriptor that somebody else gets."""

    def protect(place: int, listener: ListenerSetup) -> None:
        if listener.name == "l1":
            raise ValueError("there is no route table t")

    home.listeners = Listeners(home.pump, home.known, protect)
    home.listeners.change([one(1, sockets=2), one(2)], home.give(3))
    assert home.served() == {2}
    assert len(home.open()) == 1
    assert home.listeners.served == {"l1": False, "l2": True}
    home.known[1] = one(1)
    home.listeners.change([msgspec.structs.replace(one(1), name="l3"), one(2)], home.give(2))
    assert home.listeners.served == {"l3": True, "l2": True}


def test_a_listener_whose_new_settings_make_no_sense_is_shut(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """The worker lives on, and the former settings let nobody in whom the new ones may keep out."""
    wrong = False

    def protect(place: int, listener: ListenerSetup) -> None:
        if wrong:
            raise ValueError("there is no route table t")

    home.listeners = Listeners(home.pump, home.known, protect)
    home.listeners.change([one(1)], home.give(1))
    wrong = True
    home.listeners.change([one(1)], home.give(1))
    assert home.open() == home.served() == set()
    assert home.listeners.served == {"l1": False}
    assert "listener l1 is not served by this worker: there is no route table t" in caplog.text


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_wrong_number_of_descriptors_leaks_none(home: Home, count: int) -> None:
    """Those that nobody wants are closed; a listener without one is not served."""
    home.listeners.change([one(1), one(2)], home.give(count))
    assert len(home.pump.places) == len(home.open()) == min(count, 2)


def test_what_is_served_is_told(home: Home) -> None:
    """By name; one without room in the pump, or whose certificates cannot be used, is not."""

    def protect(place: int, listener: ListenerSetup) -> None:
        if listener.name == "l9":
            raise CertificateError("no such file")

    home.listeners = Listeners(home.pump, home.known, protect)
    home.listeners.change([one(9, tls=TLS), one(1), one(2, sockets=3)], home.give(5))
    assert home.listeners.served == {"l1": True, "l2": False, "l9": False}
    home.listeners.change([one(1)], home.give(1))
    assert home.listeners.served == {"l1": True}


def test_a_listener_with_unusable_certificates_leaves_no_socket_open(home: Home) -> None:
    """None of several: this worker has as many descriptors as before, and others accept."""

    def protect(place: int, listener: ListenerSetup) -> None:
        raise CertificateError("no such file")

    home.listeners = Listeners(home.pump, home.known, protect)
    home.listeners.change([one(1, sockets=3, tls=TLS)], home.give(3))
    assert home.open() == set()
    with pytest.raises(CertificateError):
        home.listeners.add(msgspec.structs.replace(one(1, tls=TLS), fds=home.give(2)))
    assert home.open() == set()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_listener_waits_for_certificates_that_can_be_used(home: Home, tmp_path: Path) -> None:
    """It is tried when a file has changed, and only then; meanwhile the worker serves all others."""
    file = tmp_path / "c.pem"
    tried: list[int] = []

    def protect(place: int, listener: ListenerSetup) -> None:
        if listener.tls is not None:
            tried.append(place)
            if not file.exists() or "right" not in file.read_text():
                raise CertificateError("no such file")

    home.listeners = Listeners(home.pump, home.known, protect)
    before = descriptors()
    for listener in (one(1, tls=TlsSetup("p", cert_file=str(file)), sockets=2), one(2)):
        home.known[listener.number] = listener
        home.listeners.join(msgspec.structs.replace(listener, fds=home.give(len(listener.fds))))
    assert home.listeners.served == {"l1": False, "l2": True}
    assert not home.listeners.retry()
    assert len(tried) == 1
    file.write_text("wrong")
    assert not home.listeners.retry()
    assert not home.listeners.retry()
    assert len(tried) == 2
    file.write_text("this is right")
    assert home.listeners.retry()
    assert home.listeners.served == {"l1": True, "l2": True}
    assert descriptors() == before + 3
    assert not home.listeners.retry()


def test_a_listener_that_is_to_have_tls_is_not_open_without(home: Home, tmp_path: Path) -> None:
    """Though its certificates cannot be used: its clients would say their passwords for all to read."""
    file = tmp_path / "c.pem"

    def protect(place: int, listener: ListenerSetup) -> None:
        if listener.tls is not None and not file.exists():
            raise CertificateError("no such file")

    home.listeners = Listeners(home.pump, home.known, protect)
    before = descriptors()
    home.listeners.change([one(1), one(2)], home.give(2))
    home.listeners.change([one(1, tls=TlsSetup("p", cert_file=str(file))), one(2)], home.give(2))
    assert home.served() == {2}
    assert home.listeners.served == {"l1": False, "l2": True}
    file.write_text("this is right")
    assert home.listeners.retry()
    assert home.served() == {1, 2}
    assert descriptors() == before + 2


def test_a_listener_that_waits_is_removed_or_replaced(home: Home, tmp_path: Path) -> None:
    """Without a descriptor left."""

    def protect(place: int, listener: ListenerSetup) -> None:
        if listener.tls is not None:
            raise CertificateError("no such file")

    home.listeners = Listeners(home.pump, home.known, protect)
    before = descriptors()
    waiting = one(1, tls=TlsSetup("p", cert_file=str(tmp_path / "c.pem")), sockets=2)
    for _ in range(3):
        home.listeners.change([waiting], home.give(2))
        assert descriptors() == before + 2
    home.listeners.change([one(1)], home.give(1))
    assert home.listeners.served == {"l1": True}
    assert descriptors() == before + 1
    home.listeners.change([waiting, one(2)], home.give(3))
    home.listeners.change([one(2)], home.give(1))
    assert not home.listeners.retry()
    assert descriptors() == before + 1


def test_a_mended_listener_is_told_as_served(home: Home) -> None:
    """After its certificates can be used, it lacks nothing."""
    missing = True

    def protect(place: int, listener: ListenerSetup) -> None:
        if missing:
            raise CertificateError("no such file")

    home.listeners = Listeners(home.pump, home.known, protect)
    home.listeners.change([one(1, tls=TLS)], home.give(1))
    assert home.listeners.served == {"l1": False}
    missing = False
    home.listeners.change([one(1, tls=TLS)], home.give(1))
    assert home.listeners.served == {"l1": True}
