"""Control messages of a route table: frames in messages, who may say what, and where it is answered."""

import pytest

from core.amqp.codec import mapping, section, string, symbol
from core.rmr.managers import application as a
from core.rmr.managers.envelope import ANNOTATION, EnvelopeError, opened, sealed
from core.rmr.managers.manager_session import NOT_ALLOWED, Peer
from core.rmr.managers.messages import REQUEST, STATE, TABLE, Said
from core.rmr.tables.parser import Parser
from core.rmr.tables.table import Table
from shm.contract.failures import failures
from tests.support.beds.rmr.manager_session import GOOD, UPDATE, World, binary, content
from tests.support.values.table_use import Use


def test_a_message_of_our_own_is_a_frame_that_anybody_can_read() -> None:
    """Header and payload as facts rmr 1.2 says; what is opened again is what was said."""
    said = Said(STATE, b"OK t \n\0", "me:1", -1, b"x" * 32, 7)
    heard = opened(sealed(said, "me:2"), "conn", "h:1")
    assert (heard.kind, heard.payload, heard.source, heard.xact) == (STATE, b"OK t \n\0", "me:1", b"x" * 32)
    assert heard.call == 0  # an answer: its number is in d1 and the flag is not set
    assert (heard.answer, heard.host) == ("conn", "h:1")
    long = opened(content(TABLE, b"y" * 100_000, call=9), "", "")
    assert (len(long.payload), long.call) == (100_000, 9)


@pytest.mark.parametrize(
    "octets",
    [
        b"\x00",
        b"hello",
        section(0x75, binary(b"x")),
        section(0x72, mapping([])),
        section(0x72, b"\xc1\xff\x02"),
        section(0x72, mapping([(symbol(ANNOTATION), binary(b"short"))])),
        section(0x72, mapping([(symbol(ANNOTATION), string("x"))])),
        b"\x00\x53\x75\xb0\x00\x00\x00\x09x",
        b"\x00\x53\x75\x77\x00",
    ],
)
def test_what_is_no_frame_is_said_to_be_none(octets: bytes) -> None:
    """An error with a reason, never a crash."""
    with pytest.raises(EnvelopeError):
        opened(octets, "", "")
    world = World(serve=True)
    world.connect(1, "10.0.0.1:5")
    world.session.heard(octets, 1, 1)


def test_the_manager_is_dialled_asked_and_answered_on_its_connection() -> None:
    """Requests as soon as its links are there; the acknowledgement has our source and its transaction."""
    world = World(manager="rm:4561")
    assert world.dialled == {"rm:4561": True}
    world.session.opened(Peer(3, "10.0.0.9:4561", "rm:4561"))
    world.run(10)
    assert world.sent == []  # its links are not there yet
    world.connect(3, "10.0.0.9:4561", "rm:4561")
    world.run(1)
    ((address, asked),) = world.sent
    assert (address, asked.message_type, asked.payload) == ("$conn/3", REQUEST, b"me:4560 ts=1700000000\n\0")
    assert asked.source == "me:4560"
    ((address, told),) = world.say(3, TABLE, GOOD, xact=b"abc")
    assert (address, told.message_type, told.payload, told.transaction) == ("$conn/3", STATE, b"OK t1 \n\0", b"abc")
    assert world.from_ == "manager rm:4561"
    world.run(60)
    assert len(world.sent) == 1
    assert world.counts == {"table_requests_sent": 1}
    assert world.session.client is not None
    assert world.session.client.state == "accepted"


def test_when_the_connection_comes_back_the_manager_is_asked_again() -> None:
    """The table stays in use in between; what was open is forgotten."""
    world = World(manager="rm:4561")
    world.connect(3, "10.0.0.9:4561", "rm:4561")
    world.say(3, TABLE, GOOD)
    world.say(3, TABLE, b"newrt|start|t2\nmse|2|-1|b:1\n")
    use = world.use
    world.close(3)
    world.run(60)
    assert world.use is use
    assert [one.startswith("t2 from rm:1 at 10.0.0.9:4561: the connection was lost") for one in world.refusals] == [
        True
    ]
    world.sent.clear()
    world.connect(4, "10.0.0.9:4561", "rm:4561")
    assert [(address, one.message_type) for address, one in world.sent] == [("$conn/4", REQUEST)]
    assert world.say(4, TABLE, b"mse|2|-1|b:1\nnewrt|end|1\n")[0][1].payload.startswith(b"ERR <id-missing>")


def test_the_manager_may_answer_on_a_connection_of_its_own() -> None:
    """It does so in the field: from the same address, another port."""
    world = World(manager="rm:4561")
    world.connect(3, "10.0.0.9:4561", "rm:4561")
    world.connect(4, "10.0.0.9:39000")
    ((address, told),) = world.say(4, TABLE, GOOD)
    assert (address, told.payload) == ("$conn/4", b"OK t1 \n\0")
    assert world.session.client is not None
    assert world.session.client.state == "accepted"


def test_nobody_else_may_give_tables() -> None:
    """The source that a frame names is no proof; the sender is told, and it is counted."""
    world = World(manager="rm:4561")
    world.connect(3, "10.0.0.9:4561", "rm:4561")
    world.connect(5, "10.0.0.7:39000")
    ((address, told),) = world.say(5, TABLE, GOOD, source="rm:4561")
    assert (address, told.payload) == ("$conn/5", f"ERR t1 {NOT_ALLOWED}\n\0".encode())
    assert world.use.table is None
    assert world.refusals == [f"t1 from rm:4561 at 10.0.0.7:39000: {NOT_ALLOWED}"]


def test_who_may_push_is_configured_by_address_and_network() -> None:
    """Also for a manager that only connects, and is never asked."""
    world = World(push_from=("10.1.0.0/16", "fd00::1"))
    for number, (host, allowed) in enumerate(
        [("10.1.2.3:1", True), ("10.2.2.3:1", False), ("[fd00::1]:1", True), ("[fd00::2]:1", False), ("?", False)]
    ):
        world.connect(number, host)
        ((_, told),) = world.say(number, TABLE, GOOD)
        assert told.payload.startswith(b"OK" if allowed else b"ERR"), host
    assert world.from_ == "rmr rm:1 at [fd00::1]:1"


def test_an_update_needs_a_table_that_came_over_rmr() -> None:
    """Neither a seed nor what somebody pushed by hand is the manager's to change."""
    world = World(manager="rm:4561")
    world.connect(3, "10.0.0.9:4561", "rm:4561")
    (table,) = Parser().feed("newrt|start|seed\nmse|9|-1|z:1\nnewrt|end|1\n")
    assert isinstance(table, Table)
    world.install(table, "seed /x", lambda _: None)
    ((_, told),) = world.say(3, TABLE, UPDATE)
    assert told.payload.startswith(b"ERR u ")
    world.say(3, TABLE, GOOD)
    ((_, told),) = world.say(3, TABLE, UPDATE)
    assert told.payload == b"OK u \n\0"
    world.install(table, "push admin", lambda _: None)
    ((_, told),) = world.say(3, TABLE, UPDATE)
    assert told.payload.startswith(b"ERR u ")


def test_an_application_asks_and_its_acknowledgement_counts() -> None:
    """The router as Route Manager, over one connection."""
    world = World(serve=True, served_as="router:4560")
    world.connect(1, "10.0.0.3:40000")
    (table,) = Parser().feed(GOOD.decode())
    assert isinstance(table, Table)
    world.install(table, "seed /x", lambda _: None)
    ((address, sent),) = world.say(1, REQUEST, b"app:1 ts=5\n\0", source="app:2")
    assert (address, sent.message_type, sent.source) == ("$conn/1", TABLE, "router:4560")
    table_id = sent.payload.split(b"\n")[0].split(b"|")[2]
    assert table_id == b"t1@i.1"
    assert world.say(1, STATE, b"OK " + table_id + b" \n\0", source="app:2", xact=sent.transaction) == []
    assert world.session.server is not None
    (one,) = world.session.server
    assert (one.state, one.table.table_id, one.endpoint) == (a.OK, "t1@i.1", "app:1")
    assert world.counts == {"table_requests": 1, "table_acks": 1}
    world.close(1)
    assert world.dialled == {"10.0.0.3:2": True}
    world.connect(2, "10.0.0.3:4561", "10.0.0.3:2")
    assert [one.message_type for _, one in world.sent] == [TABLE]


def test_a_router_that_is_no_manager_does_not_answer_requests() -> None:
    """Nor is it upset by them, or by acknowledgements."""
    world = World()
    world.connect(1, "10.0.0.3:40000")
    assert world.say(1, REQUEST, b"app:1 ts=5\n\0") == []
    assert world.say(1, STATE, b"OK x \n\0") == []
    assert world.say(7, REQUEST, b"nobody knows this connection\n\0") == []


def test_configured_applications_are_pushed_to_unasked() -> None:
    """Those that wait for their manager to come."""
    (table,) = Parser().feed(GOOD.decode())
    assert isinstance(table, Table)
    world = World(Use().apply(table), serve=True, push_to=("app:4561",))
    assert world.dialled == {"app:4561": True}
    world.connect(1, "10.0.0.3:4561", "app:4561")
    assert [(address, one.message_type) for address, one in world.sent] == [("$conn/1", TABLE)]


@pytest.mark.parametrize(
    ("host", "named", "settings", "dialled"),
    [
        ("10.0.0.3:5", "victim:25", {}, {"10.0.0.3:25": True}),
        ("[fd00::3]:5", "victim:25", {}, {"[fd00::3]:25": True}),
        ("10.0.0.3:5", "victim:25", {"dial_back": "name"}, {"victim:25": True}),
        ("10.0.0.3:5", "victim:25", {"dial_back": "none"}, {}),
        ("10.0.0.3:5", "no port", {}, {}),
        ("172.16.0.9:5", "app:2", {}, {"172.16.0.9:2": True}),
    ],
)
def test_a_message_names_no_host_that_is_connected_to(
    host: str, named: str, settings: dict[str, object], dialled: dict[str, bool]
) -> None:
    """Whoever asks is connected to at its own address, unless the configuration says otherwise."""
    world = World(serve=True, **settings)
    world.connect(1, host)
    world.say(1, REQUEST, b"app:1 ts=5\n\0", source=named)
    world.close(1)
    assert world.dialled == dialled


@pytest.mark.parametrize(
    ("host", "settings", "known"),
    [
        ("127.0.0.1:5", {}, 1),
        ("192.168.7.7:5", {}, 1),
        ("[::ffff:10.0.0.1]:5", {}, 1),
        ("8.8.8.8:5", {}, 0),
        ("8.8.8.8:5", {"serve_to": ("8.8.0.0/16",)}, 1),
        ("10.0.0.3:5", {"serve_to": ("8.8.0.0/16",)}, 0),
    ],
)
def test_who_may_ask_for_tables(
    host: str, settings: dict[str, object], known: int, caplog: pytest.LogCaptureFixture
) -> None:
    """By default whoever is not on the public internet; who may not is named in the log, and forgotten."""
    world = World(serve=True, **settings)
    world.connect(1, host)
    world.say(1, REQUEST, b"app:1 ts=5\n\0", source="app:2")
    assert world.session.server is not None
    assert len(list(world.session.server)) == known
    assert ("requested a table and gets none: serveTo" in caplog.text) == (not known)


def test_one_host_that_asks_by_many_names_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """A message may name any source: the line is the host's."""
    world = World(serve=True, serve_to=("8.8.0.0/16",))
    for number in range(1, 100):
        world.connect(number, f"10.0.0.3:{number}")
        world.say(number, REQUEST, b"app:1 ts=5\n\0", source=f"app:{number}")
    assert len([one for one in caplog.records if "gets none" in one.getMessage()]) == 1


def test_accepted_connections_cost_the_core_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that this router opened are waited for: a flood of clients made each step look at all of them."""
    world = World(manager="rm:4561", serve=True)
    asked: list[str] = []
    monkeypatch.setattr(world, "there", lambda address: asked.append(address) is None)
    for number in range(100):
        world.connect(number, f"192.0.2.{number}:5000")
    world.run(1)
    assert not asked
    world.connect(100, "192.0.2.100:4561", "rm:4561")
    assert asked == ["$conn/100"]


@pytest.mark.parametrize(
    ("host", "source", "own"),
    [
        ("127.0.0.1", "127.0.0.1:4560", True),
        ("[::1]", "[::1]:4560", True),
        ("10.0.0.3", "router:4560", True),
        ("10.0.0.3", "me:4560", True),
        ("127.0.0.1", "127.0.0.1:4561", False),
        ("10.0.0.3", "10.0.0.3:4560", False),
    ],
)
def test_the_router_is_no_application_of_its_own(
    host: str, source: str, own: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It would connect to itself, and give itself its table."""
    world = World(serve=True, served_as="router:4560")
    world.connect(1, f"{host}:40000")
    world.say(1, REQUEST, f"{source} ts=5\n\0".encode(), source=source)
    assert world.session.server is not None
    assert len(list(world.session.server)) == (not own)
    assert ("this router listens there itself" in caplog.text) is own


def test_a_table_made_of_our_own_is_refused() -> None:
    """Whichever way it has come back; with each round its id would grow."""
    world = World(serve=True, push_from=("10.1.0.0/16",))
    world.connect(1, "10.1.2.3:1")
    ((_, told),) = world.say(1, TABLE, GOOD.replace(b"t1", b"t1@i.4@other.7"))
    assert told.payload.startswith(b"ERR")
    assert b"it is made of a table that this router has sent" in told.payload
    ((_, told),) = world.say(1, TABLE, GOOD.replace(b"t1", b"t1@other.7"))
    assert told.payload.startswith(b"OK")


def test_a_request_that_fails_is_made_again_and_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at every turn; management shows why the manager has not been asked."""
    world, before = World(manager="rm:4561"), failures.number
    monkeypatch.setattr("core.rmr.managers.manager_session.sealed", lambda *_: 1 / 0)
    world.connect(3, "10.0.0.9:4561", "rm:4561")
    world.run(1)
    assert (failures.number, world.sent) == (before + 1, [])
    assert world.session.client is not None
    assert world.session.client.reason == "ZeroDivisionError in the router, whose log says more"
    monkeypatch.undo()
    world.run(5)
    assert [sent.message_type for _, sent in world.sent] == [REQUEST]


def test_an_answer_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its message is over, and the next one of its sender is read and answered."""
    world, before = World(push_from=("10.0.0.9",)), failures.number
    world.connect(1, "10.0.0.9:4561")
    for wrong in (b"newrt|end\n", b"newrt|start|u\nnewrt|end|7\n"):
        monkeypatch.setattr("core.rmr.managers.manager_session.sealed", lambda *_: 1 / 0)
        assert world.say(1, TABLE, wrong) == []
        monkeypatch.undo()
        ((_, told),) = world.say(1, TABLE, GOOD)
        assert told.payload.startswith(b"OK t1")
    assert failures.number == before + 2
