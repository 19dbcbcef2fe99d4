"""Clients that an authentication service judges: what its word means, and who is asked when."""

import socket
from typing import Any

import msgspec
import pytest

from shm.contract.control import ConnectorSetup, ListenerSetup
from shm.contract.security import Admission, PolicySetup, ServiceSetup, TlsSetup
from workers.control.attempts import LOOKUPS_MOST
from workers.control.listeners import Terms
from workers.control.logins import MOST, PER_HOST
from workers.control.policy import Grant, Policy, Rights, with_rights
from workers.control.relays import PORTION, SERVICE_SECONDS, Relays, WordError, identity, permissions
from workers.control.tls import CertificateError

CLIENT = (3, 1)
BOTH = ["send", "recv"]
FAILED = ["auth_service_failed", "refused_authentication"]


class Home:
    """Everything around the relays of a worker: it writes down what it is asked for."""

    def __init__(self) -> None:
        self.now = 100.0
        self.service_rights: dict[int, Rights] = {}
        self.denied: set[int] = set()
        self.counts: list[str] = []
        self.done: list[tuple[Any, ...]] = []
        self.undecided = {CLIENT}
        self.unusable = False
        self.looked: Any = None
        self.asked: list[tuple[str, ...]] = []
        self.names = iter((index, 1) for index in range(50, 60))
        self.numbers = {50: 7}
        time = {"clock": lambda: self.now, "look_up": self.look_up}
        self.relays = Relays(self, self, self, self, ("R", "1"), self.numbers, **time)

    def serve(self, handler: Relays) -> None:
        """Each event is a call by the test."""

    def said(self, client: tuple[int, int], mechanism: str, said: bytes) -> None:
        raise AssertionError("a service judges all clients of this listener")

    def left(self, client: tuple[int, int]) -> None:
        self.done.append(("left", client))

    def look_up(self, *asked: str) -> Any:
        self.looked = type("Lookup", (), {"done": False, "addresses": [], "error": "nobody knows it"})()
        self.asked.append(asked)
        return self.looked

    def add_place(self, *terms: *Terms) -> int:
        return 9

    def remove_place(self, place: int) -> None:
        self.done.append(("removed", place))

    def end_round(self) -> None:
        self.done.append(("round",))

    def protect(self, number: int, terms: ConnectorSetup) -> None:
        if self.unusable:
            raise CertificateError("no such file")

    def certificates_due(self, number: int) -> None:
        pass

    def peer(self, index: int) -> str:
        return f"10.0.{index // 1000}.1:9"

    def count(self, name: str) -> None:
        self.counts.append(name)

    def relay(self, place: int, on: bool) -> None:
        self.done.append(("relay", place, on))

    def waiting(self, index: int, generation: int) -> bool:
        return (index, generation) in self.undecided

    def dial(self, place: int, fd: int, *rest: object) -> tuple[int, int]:
        socket.socket(fileno=fd).close()
        self.done.append(("dial", place, *rest[:2]))
        return next(self.names)

    def admit(self, index: int, generation: int, user: str) -> None:
        self.done.append(("admit", user))
        self.undecided.discard((index, generation))

    def refuse(self, index: int, generation: int, for_now: bool) -> None:
        self.done.append(("refuse", for_now))
        self.undecided.discard((index, generation))

    def hang_up(self, index: int, generation: int) -> None:
        self.done.append(("hang up", index))


def listener(port: int = 5672, **more: Any) -> ListenerSetup:
    service = ServiceSetup("judge", "auth.example", str(port), "realm", **more)
    return ListenerSetup("l", [], number=4, service=service)


@pytest.fixture
def home() -> Home:
    home = Home()
    home.relays.change([listener()])
    return home


def wanted(home: Home, client: tuple[int, int] = CLIENT) -> None:
    """A client wants to be judged, and the service's name is being looked up."""
    home.undecided.add(client)
    home.relays.wanted(client, 4)
    assert home.relays.wait(1.0) < 0.1
    home.relays.step()


def found(home: Home, addresses: int = 1) -> None:
    """A client wants to be judged, and where the service is has been found out."""
    wanted(home)
    server = socket.create_server(("127.0.0.1", 0))
    home.looked.addresses = [(socket.AF_INET, server.getsockname())] * addresses
    home.looked.done = True
    home.relays.step()
    server.close()
    assert home.relays.wait(1.0) == 1.0
    assert home.done[-1] == ("dial", 9, CLIENT, listener().service)


def test_a_client_is_let_in_by_the_services_word(home: Home) -> None:
    """And its rights are forgotten with it."""
    found(home)
    said = {"authenticated-identity": {"sub": "alice"}, "address-authz": {"a": BOTH, "b": ["recv"], "c": ["no"]}}
    home.relays.opened((50, 1), "", said, ["ADDRESS-AUTHZ"])
    assert home.done[-2:] == [("hang up", 50), ("admit", "alice")]
    assert home.service_rights == {3: Rights(sources=["a", "b"], targets=["a"])}
    home.relays.ended((50, 1), True, False, "", None)
    assert home.counts == ["auth_service_accepted"]
    home.relays.left(CLIENT)
    assert home.service_rights == {}
    assert home.numbers == {}


def test_nobody_knows_the_service(home: Home) -> None:
    wanted(home)
    home.looked.done = True
    home.relays.step()
    assert home.done[-1] == ("refuse", True)
    assert home.counts == FAILED


def test_all_who_wait_for_a_service_share_a_lookup(home: Home) -> None:
    """However many come and leave while the name service is slow: each lookup has a thread."""
    for index in range(1000, 1000 + 100 * MOST, 100):
        wanted(home, (index, 1))
        home.undecided.clear()
    wanted(home)
    wanted(home, (4, 1))
    assert home.asked == [("auth.example", "5672", "")]
    with socket.create_server(("127.0.0.1", 0)) as server:
        home.looked.addresses, home.looked.done = [(socket.AF_INET, server.getsockname())], True
        home.relays.step()
    assert [one[2] for one in home.done if one[0] == "dial"] == [CLIENT, (4, 1)]
    wanted(home, (5, 1))
    assert len(home.asked) == 2


def test_lookups_of_many_services_are_bounded(home: Home) -> None:
    """Those of services that a reload has removed count, because their threads live on."""
    for number in range(LOOKUPS_MOST):
        home.relays.change([listener(number)])
        home.undecided.add((number, 1))
        home.relays.wanted((number, 1), 4)
        home.relays.step()
    home.relays.change([listener()])
    wanted(home, (60, 1))
    assert len(home.asked) == LOOKUPS_MOST
    home.looked.done = True
    home.relays.step()
    assert len(home.asked) == LOOKUPS_MOST + 1


def test_messages_have_their_turn_between_connections_to_a_service(home: Home) -> None:
    """All whose service has been looked up at once begin a portion at a time."""
    for index in range(3 * PORTION):
        wanted(home, (index, 1))
    home.looked.done = True
    for rounds in range(1, 4):
        home.relays.step()
        assert home.done.count(("refuse", True)) == rounds * PORTION
        assert home.relays.wait(1.0) == (0.0 if rounds < 3 else 1.0)


def test_a_client_that_does_not_wait_is_forgotten(home: Home) -> None:
    wanted(home)
    home.undecided.clear()
    home.relays.step()
    assert home.relays.wait(1.0) == 1.0
    assert home.counts == []
    assert not home.relays._begun


def test_the_next_address_is_tried(home: Home) -> None:
    """While there is one, and time."""
    found(home, addresses=2)
    home.relays.ended((50, 1), False, False, "", ("proton:io", "Connection refused"))
    assert home.done[-1][0] == "dial"
    home.relays.ended((51, 1), False, False, "", ("proton:io", "Connection refused"))
    assert home.done[-1] == ("refuse", True)
    assert home.counts == FAILED


@pytest.mark.parametrize(
    ("end", "counted"),
    [
        ((True, False, "", None), ["auth_service_refused"]),
        ((True, True, "nonsense", None), ["auth_service_refused"]),
        ((True, False, "the service makes no sense", None), FAILED),
        ((False, False, "", None), FAILED),
    ],
)
def test_who_has_decided_is_counted(home: Home, end: tuple[Any, ...], counted: list[str]) -> None:
    found(home)
    home.relays.ended((50, 1), *end)
    assert home.counts == counted


def test_a_silent_service_is_given_up(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    found(home, addresses=2)
    home.now += SERVICE_SECONDS
    home.relays.ended((50, 1), False, False, "", ("proton:io", "aborted"))
    assert home.done[-1] == ("refuse", True)
    assert f"judge (auth.example:5672): no answer within {SERVICE_SECONDS} s; 10.0.0.1:9" in caplog.text


def test_a_service_whose_certificates_are_of_no_use_lets_nobody_in(home: Home) -> None:
    home.unusable = True
    home.relays.change([listener(tls=TlsSetup("p"))])
    assert ("removed", 9) in home.done
    wanted(home)
    home.looked.addresses, home.looked.done = [(socket.AF_INET, ("127.0.0.1", 9))], True
    home.relays.step()
    assert home.done[-1][0] == "refuse"
    assert home.counts == FAILED


def test_a_service_that_is_taken_away_judges_nobody(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """Whether the client came before or after."""
    wanted(home)
    home.relays.change([])
    home.looked.addresses, home.looked.done = [(socket.AF_INET, ("127.0.0.1", 9))], True
    home.relays.step()
    assert home.done[-1] == ("refuse", False)
    home.undecided.add((8, 1))
    home.counts.clear()
    home.relays.wanted((8, 1), 4)
    assert home.relays.wait(1.0) == 0.0
    home.relays.step()
    assert home.done[-1] == ("refuse", True)
    assert home.counts == FAILED
    assert 8 in home.denied
    assert "the listener of 10.0.0.1:9 has another authentication service since it came" in caplog.text


def test_logins_of_an_address_that_wait_are_bounded(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """What goes beyond is refused for now; who leaves makes room."""
    for index in range(PER_HOST + 1):
        home.undecided.add((index, 1))
        home.relays.wanted((index, 1), 4)
    assert home.relays.wait(1.0) == 0.0  # the engine reads the client's SASL header, and takes no outcome
    home.relays.step()
    assert home.relays.wait(1.0) > 0.0
    assert home.done[-1] == ("refuse", True)
    assert home.denied == {PER_HOST}
    assert home.undecided == {(index, 1) for index in range(PER_HOST)}
    assert f"{PER_HOST} logins of its address wait for an answer; 10.0.0.1:9 is refused" in caplog.text
    home.undecided.clear()
    home.relays.step()
    assert not home.relays._begun
    home.undecided.add(CLIENT)
    found(home)
    assert home.relays._begun.total() == 1
    home.relays.ended((50, 1), True, False, "", None)
    assert not home.relays._begun


def test_logins_of_all_addresses_that_wait_are_bounded(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    clients = [(1000 * (index // 100) + index, 1) for index in range(MOST + 1)]
    home.undecided.update(clients)
    for client in clients:
        home.relays.wanted(client, 4)
    home.relays.step()
    assert home.counts == FAILED
    assert f"{MOST} logins wait for an answer" in caplog.text


@pytest.mark.parametrize(
    ("said", "user"),
    [({}, ""), ({"authenticated-identity": "ann"}, "ann"), ({"authenticated-identity": {"sub": "bob"}}, "bob")],
)
def test_an_identity(said: dict[str, Any], user: str) -> None:
    assert identity(said) == user


@pytest.mark.parametrize("said", [7, {"sub": 7}, {"sub": ["a"]}, ["a"], None, {}, {"sub": None}, "a\0"])
def test_an_identity_that_is_none(said: object) -> None:
    with pytest.raises(WordError):
        identity({"authenticated-identity": said})


@pytest.mark.parametrize(
    ("said", "offered"),
    [
        ({}, ["ADDRESS-AUTHZ"]),
        ({"address-authz": "*"}, []),
        ({"address-authz": None}, []),
        ({"address-authz": {"a": "send"}}, []),
    ],
)
def test_permissions_that_make_no_sense(said: dict[str, Any], offered: list[str]) -> None:
    with pytest.raises(WordError):
        permissions(said, offered)


def test_permissions_that_are_not_given_leave_it_to_the_vhost() -> None:
    assert permissions({}, []) is None
    assert permissions({"address-authz": {}}, []) == Rights([], [])


def test_the_services_word_stands_for_the_vhosts() -> None:
    """Addresses are the service's, limits the vhost's; without a vhost there are no limits."""
    free = with_rights(Policy(PolicySetup()).grant("h", "ann", "::1"), Rights(["a_${user}"], ["b*"]), "ann", "::1")
    assert isinstance(free.admission, Admission)
    assert (free.admission.sources, free.admission.targets, free.admission.vhost) == (["a_ann"], ["b*"], "")
    few = Grant(admission=msgspec.structs.replace(free.admission, max_senders=1, source_patterns=["#"]), max_sessions=2)
    bound = with_rights(few, Rights([], []), "ann", "::1")
    assert bound.admission is not None
    assert (bound.max_sessions, bound.admission.max_senders) == (2, 1)
    assert bound.admission.source_patterns == bound.admission.sources == []
