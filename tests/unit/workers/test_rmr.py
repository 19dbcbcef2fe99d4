"""RMR connections of a worker: their links, what the core is told, endpoints that are tried again."""

import socket
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from shm.contract.complaints import bursts
from shm.contract.control import ListenerSetup, SetListeners, SetTables, Setup
from shm.contract.payloads import (
    Attach,
    Attached,
    Close,
    ConnectionClosed,
    ConnectionOpened,
    Detach,
    Endpoint,
    Error,
    Trace,
)
from shm.contract.tables import TableSetup
from workers.control.lookup import POLL_SECONDS, Lookup
from workers.rmr import endpoints
from workers.rmr.connections import Rmr, Terms, tokens


class World:
    """Everybody that an Rmr works with; ``said`` is what the core was told, ``asked`` what the pump was."""

    def __init__(self, **table: Any) -> None:
        self.said: list[Any] = []
        self.asked: list[tuple[Any, ...]] = []
        self.peers: dict[int, str] = {}
        self.numbers: dict[int, int] = {}
        self.lines = bursts()
        self.places: set[int] = set()  # that speak RMR
        self.dialling: list[int] = []  # places of connections to endpoints
        self.wrong = False  # whether terms are refused
        self.links = 0
        self.now = 100.0
        self.room = True
        self.listeners = {
            1: ListenerSetup("one", [], 1, table="t", advertised="router:4560"),
            2: ListenerSetup("two", [], 2, table="t", advertised="router:4561"),
        }
        self.tables = [TableSetup("t", "addr", **table)]
        terms = {"secret": b"secret", "tables": self.tables, "link_capacity": 250}
        setup = Setup("worker", 0, 1, "/none", "me", "0", 1, [-1], **terms)
        self.rmr = Rmr(self, self, self, self, setup, lambda: self.now)  # type: ignore[arg-type]  it is all of them
        for place in (1, 2):
            self.rmr.listen(place, self.listeners[place])

    # ---- the pump, its security, the handler ----

    def serve(self, handler: Rmr) -> None:
        """Each event is a call by the test."""

    def add_place(self, capacity: int) -> int:
        self.dialling.append(9 + len(self.dialling))
        return self.dialling[-1]

    def remove_place(self, place: int) -> None:
        self.asked.append(("remove", place))

    def speaks(self, place: int) -> bool:
        return place in self.places

    def speak(self, place: int, terms: Terms) -> None:
        if self.wrong:
            raise ValueError("the source is too long")
        self.places.add(place)
        self.asked.append(("speak", place, terms))

    def dial(self, place: int, fd: int) -> tuple[int, int] | None:
        self.asked.append(("dial", place))
        if not self.room:
            return None
        socket.close(fd)
        return 7, 1

    def attach(self, index: int, number: int, which: int) -> tuple[int, int, int] | None:
        self.links += 1
        return (self.links, 5, 250) if self.room else None

    def link_open(self, *link: Any) -> None:
        self.asked.append(("open", *link))

    def close(self, *name: int) -> None:
        self.asked.append(("close", *name))

    def end_round(self) -> None:
        pass

    def peer(self, index: int) -> str:
        return "10.0.0.9:5"

    def listener_of(self, index: int) -> int:
        return 9 if index == 7 else index

    def number(self, index: int) -> int:
        return self.numbers.setdefault(index, 40 + index)

    def post(self, message: Any, **names: int) -> None:
        self.said.append(message)

    @property
    def tracing(self) -> Any:
        return self

    @property
    def messages(self) -> Any:
        return SimpleNamespace(opened=self.log_messages)

    def log_messages(self, *what: Any) -> None:
        self.asked.append(("log", *what))

    def set(self, *what: Any) -> None:
        self.asked.append(("trace", *what))

    def attaches(self) -> list[tuple[str | None, bool]]:
        return [(one.address, one.outgoing) for one in self.said if isinstance(one, Attach)]


def test_an_accepted_connection_has_three_links():
    """To its table, to anywhere, and from an address of its own."""
    world = World()
    world.rmr.opened(1, 3)
    opened = world.said[0]
    assert isinstance(opened, ConnectionOpened)
    assert (opened.role, opened.host, opened.number, opened.listener) == ("rmr", "10.0.0.9:5", 41, "one")
    assert world.attaches() == [("addr", False), (None, False), ("addr/$conn/me/41", True)]


def test_what_the_core_says_of_links():
    """A link that is let in is opened; one that is refused ends the connection, as does a wanted."""
    world = World()
    world.rmr.opened(1, 3)
    world.asked.clear()
    assert world.rmr.take(Attached(1, 5, to_table=True))
    assert world.rmr.take(Attached(2, 5, error=Error("amqp:not-found", "no")))
    assert world.rmr.take(Detach(3, 5))
    assert world.rmr.take(Close(1, 3, Error("a:b")))
    assert world.asked == [("open", 1, 5, True), *[("close", 1, 3)] * 3]
    assert not world.rmr.take(Attached(1, 6))
    assert not world.rmr.take(Detach(77, 5))
    assert not world.rmr.take(Close(1, 4, Error("a:b")))


def test_a_new_core_hears_which_links_report_keys():
    """Its predecessor may not have had the table yet."""
    world = World()
    world.rmr.opened(1, 3)
    world.rmr.take(Attached(1, 5, to_table=True))
    world.rmr.take(Attached(2, 5))
    world.said.clear()
    world.rmr.link_present(1, 5)
    world.rmr.link_present(2, 5)
    told = [(one.link, one.restored, one.to_table) for one in world.said if isinstance(one, Attach)]
    assert told == [(1, True, True), (2, True, False)]


def test_a_lost_connection_is_forgotten():
    """The core is told why."""
    world = World()
    world.rmr.opened(1, 3)
    world.rmr.gone(1, 3, True, "bad frame")
    assert world.said[-1] == ConnectionClosed(1, 3, "bad frame")
    assert not world.rmr.take(Attached(1, 5))
    assert world.numbers == world.peers == {}


def test_no_room_for_links():
    """The connection is closed, not left half made."""
    world = World()
    world.room = False
    world.rmr.opened(1, 3)
    assert ("close", 1, 3) in world.asked


def test_a_new_core_is_told():
    """Connections and links as they are; one that came while there was no core, from the start."""
    world = World()
    world.rmr.opened(1, 3)
    assert world.rmr.take(Attached(2, 5))
    world.said.clear()
    world.rmr.present(1, 3)
    world.rmr.link_present(2, 5)
    world.rmr.link_present(3, 5)
    assert world.said[0].restored
    assert (world.said[1].link, world.said[1].restored, world.said[1].granted) == (2, True, 0)
    assert (world.said[2].link, world.said[2].restored) == (3, False), "nobody has accepted it: it asks again"
    world.rmr.present(2, 8)
    assert not world.said[3].restored
    assert len(world.attaches()) == 5


def test_a_connection_that_is_traced():
    """By request of the core, and a new core is told that it is."""
    world = World()
    world.rmr.opened(1, 3)
    assert world.rmr.take(Trace(1, 3, on=True))
    assert not world.rmr.take(Trace(1, 4, on=True))
    assert ("trace", 1, 3, True) in world.asked
    world.rmr.present(1, 3)
    assert (world.said[-1].trace, world.said[-1].restored) == (True, True)


def test_whose_messages_are_logged():
    """Those of a listener that wants it; to endpoints: those of a table whose first listener does."""
    world = World()
    world.listeners[1] = msgspec.structs.replace(world.listeners[1], logged_parts=["app-properties"])
    world.rmr.opened(1, 3)
    world.rmr.opened(2, 3)
    world.rmr.take(wanted(world))
    world.rmr.endpoints.step()
    world.rmr.opened(7, 1)
    assert [one for one in world.asked if one[0] == "log"] == [
        ("log", 1, 3, ["app-properties"]),
        ("log", 7, 1, ["app-properties"]),
    ]


@pytest.mark.parametrize(("reply", "number"), [("transparent", 0), ("proxied", 1), ("sameConnection", 2)])
def test_terms_of_listeners(reply, number):
    """Sources name the first listener; tokens mean replies where that is the way of the table."""
    world = World(reply=reply, max_frame_size=5000)
    nonce, key = tokens(b"secret", "addr")
    terms = Terms("addr", "addr/$rm", "addr/$conn/me/", "router:4560", nonce, key, 5000, number, reply == "proxied")
    assert world.asked[-1] == ("speak", 2, terms)


def test_a_listener_for_replies():
    """Sources name it, and tokens that come by others are no replies."""
    world = World()
    world.listeners[2] = ListenerSetup("two", [], 2, table="t", advertised="router:4561", replies=True)
    world.asked.clear()
    world.rmr.configure(SetTables(world.tables))
    assert [(place, terms.source, terms.replies) for _, place, terms in world.asked] == [
        (1, "router:4561", False),
        (2, "router:4561", True),
    ]


def test_a_place_that_another_listener_or_connector_has_taken():
    """Neither other tables nor another listener of the table change its terms."""
    world = World()
    world.places.discard(1)
    world.asked.clear()
    world.rmr.configure(SetTables(world.tables))
    world.rmr.listen(3, world.listeners[2])
    assert {place for _, place, _ in world.asked} == {2, 3}


def test_sources_name_a_listener_that_is_there():
    """After a reload replies come to one that stays; connections of the removed one keep the other terms."""
    world = World()
    world.asked.clear()
    world.rmr.configure(SetListeners([world.listeners[2]]))
    assert [(place, terms.source) for _, place, terms in world.asked] == [(1, "router:4561"), (2, "router:4561")]


# ---- endpoints ----


def wanted(world: World, **changed: Any) -> Endpoint:
    return Endpoint(**{"table": "t", "address": "addr/127.0.0.1:1", "host": "127.0.0.1", "port": 1} | changed)


def test_an_endpoint_is_connected_to_and_has_four_links():
    """Its own address is the third."""
    world = World()
    world.rmr.take(wanted(world))
    assert world.rmr.endpoints.wait(5.0) == 0.0
    world.rmr.endpoints.step()
    assert ("dial", 9) in world.asked
    world.rmr.opened(7, 1)
    assert world.attaches() == [("addr", False), (None, False), ("addr/127.0.0.1:1", True), ("addr/$conn/me/47", True)]
    opened = world.said[0]
    assert (opened.container, opened.host) == ("127.0.0.1:1", "10.0.0.9:5")
    assert opened.connector == "addr/127.0.0.1:1"


def test_an_endpoint_is_tried_again_more_and_more_seldom():
    """After 1, 2, 4, … seconds, at most 30; after a connection that was open, from the start."""
    world = World()
    world.rmr.take(wanted(world))
    pauses = []
    for _ in range(7):
        world.rmr.endpoints.step()
        world.rmr.gone(7, 1, False, "refused")
        pauses.append(world.rmr.endpoints.wait(99.0))
        world.now += pauses[-1]
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert world.said == [wanted(world, open=False)]  # once: the core waits for the first attempt only
    world.rmr.endpoints.step()
    world.rmr.opened(7, 1)
    world.rmr.gone(7, 1, True, "")
    assert world.rmr.endpoints.wait(99.0) == 1


def test_an_endpoint_that_is_not_wanted_any_more():
    """Its connection ends, and none is made."""
    world = World()
    world.rmr.take(wanted(world))
    world.rmr.endpoints.step()
    world.rmr.take(wanted(world, open=False))
    assert ("close", 7, 1) in world.asked
    world.rmr.gone(7, 1, False, "")
    assert world.rmr.endpoints.wait(5.0) == 5.0


def test_endpoints_of_a_dead_core_are_forgotten_and_a_stop_ends_attempts():
    """The next core asks for what it wants."""
    world = World()
    world.rmr.take(wanted(world))
    world.rmr.endpoints.step()
    world.rmr.endpoints.forget()
    assert ("close", 7, 1) in world.asked
    world.rmr.take(wanted(world))
    world.rmr.endpoints.stop()
    world.asked.clear()
    world.rmr.endpoints.step()
    assert world.asked == []


def test_an_endpoint_without_room_is_tried_again():
    """As one that cannot be reached."""
    world = World()
    world.room = False
    world.rmr.take(wanted(world))
    world.rmr.endpoints.step()
    assert world.rmr.endpoints.wait(99.0) == endpoints.FIRST_SECONDS


def test_an_endpoint_whose_terms_are_refused(caplog):
    """Each attempt gives its place back, and the log says why within the bound of all endpoints."""
    world = World()
    world.wrong = True
    world.rmr.take(wanted(world))
    for _ in range(20):
        world.rmr.endpoints.step()
        world.now += 30
    assert [one for one in world.asked if one[0] == "remove"] == [("remove", place) for place in world.dialling]
    lines = [record.getMessage() for record in caplog.records if "too long" in record.getMessage()]
    assert 0 < len(lines) < 20
    assert "endpoint addr/127.0.0.1:1: the source is too long; next attempt in 1 s" in lines[0]
    world.wrong = False
    world.rmr.endpoints.step()
    assert ("dial", world.dialling[-1]) in world.asked


def test_terms_that_are_refused_leave_the_former_ones(caplog):
    """Of one place: the tables are replaced, and the worker lives on."""
    world = World()
    world.wrong = True
    world.rmr.configure(SetTables([TableSetup("t", "other")]))
    assert "route table t" in caplog.text
    world.wrong = False
    world.rmr.opened(1, 3)
    assert world.attaches()[0] == ("other", False)


def test_a_table_that_is_removed_gives_its_place_back():
    """A later table of the name has another one."""
    world = World()
    world.rmr.take(wanted(world))
    world.rmr.endpoints.step()
    world.rmr.configure(SetTables([]))
    assert ("remove", 9) in world.asked
    world.rmr.configure(SetTables(world.tables))
    world.rmr.take(wanted(world, open=False))
    world.rmr.take(wanted(world))
    world.rmr.endpoints.step()
    assert [one for one in world.asked if one[0] == "dial"] == [("dial", 9), ("dial", 10)]


def test_a_host_that_is_not_known(monkeypatch):
    """It is said, and tried again."""

    class Unknown(Lookup):
        def _find(self, flags: int = 0) -> None:
            self.done, self.error = True, "host nowhere is not known"

    world = World()
    failed: list[Endpoint] = []
    world.rmr.endpoints = endpoints.Endpoints(
        lambda *_: None, lambda _: None, failed.append, lambda: world.now, Unknown
    )
    world.rmr.endpoints.take(wanted(world, host="nowhere"))
    world.rmr.endpoints.step()
    world.rmr.endpoints.step()
    assert world.rmr.endpoints.wait(99.0) in (1.0, POLL_SECONDS)
    assert [one.host for one in failed] == ["nowhere"]


def test_lines_about_many_endpoints_have_one_bound(caplog):
    """Whoever names hundreds of ports does not fill the log."""
    world = World()
    world.room = False
    for number in range(300):
        world.rmr.take(wanted(world, address=f"rt/app:{number}"))
    for _ in range(120):
        world.rmr.endpoints.step()
        world.now += 1.0
    lines = [one for one in caplog.records if "next attempt" in one.getMessage() and one.levelname == "WARNING"]
    assert 0 < len(lines) <= endpoints.ALL_BURST + 120 / endpoints.ALL_SECONDS + 1
    assert any("more since the last such line" in one.getMessage() for one in lines)
