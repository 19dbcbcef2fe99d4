"""The management agent: every request gets the right status, text and body."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from proton import Message, symbol

from bench.contract import C_CONNECTION_CLOSED, C_CONNECTION_OPENED
from core.addresses.addresses import Address
from core.link_routes.routes import Routes
from core.management import codec
from core.management.dummy import LONGEST
from core.management.link_route import LONGEST_NAME
from core.management.request import MOST_VALUES, ManagementError, Request, Requester, request_of
from shm.contract.chunked import Rows
from shm.contract.management import PREFIX
from shm.contract.payloads import ConnectionClosed, ConnectionOpened
from shm.memory import segment
from tests.support.beds.agent import Bed

COLUMNS = {"connection": 25, "router.link": 29, "router.address": 21, "router": 33, "router.config.address": 11}


def test_links(bed: Bed) -> None:
    """Both directions, with connection and address."""
    rows = bed.query(PREFIX + "router.link")
    told = [(r["linkName"], r["linkDir"], r["owningAddr"], r["connectionId"], r["creditAvailable"]) for r in rows]
    assert told == [("to", "in", "M0news.uk", "4", 250), ("from", "out", "M0news.uk", "4", 0)]
    assert [r["identity"] for r in rows] == ["1", "2"]


def test_addresses(bed: Bed) -> None:
    """The key, its treatment and its receivers; what a message without a destination names is none."""
    bed.core.addresses.learn(b"nobody.is.here")
    (row,) = bed.query(PREFIX + "router.address")
    assert (row["key"], row["distribution"], row["subscriberCount"], row["inProcess"]) == (
        "M0news.uk",
        "multicast",
        1,
        0,
    )


def test_an_address_that_goes_while_all_are_listed(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core's thread forgets addresses while the agent's looks at them."""
    addresses = bed.core.addresses
    (known,) = [one for one in addresses.entries() if one.key == "M0news.uk"]
    gone = Address("M0gone", 0x700000023, known.rule)
    monkeypatch.setattr(addresses, "entries", lambda: Rows([{1: gone, 2: known}]))
    assert [row["key"] for row in bed.query(PREFIX + "router.address")] == ["M0news.uk"]


def test_the_core_may_have_the_lock_before_each_row(bed: Bed) -> None:
    """A page of any length holds it up for a row; of addresses, some hundreds are looked at together."""
    for i in range(600):
        bed.core.local.listen(f"own.{i}", lambda *_: None)
    bed.query(PREFIX + "router.link")
    assert bed.ways_given == 2
    bed.query(PREFIX + "router.address", "name")
    assert 600 < bed.ways_given - 2 < 620
    before = bed.ways_given
    bed.query("dummy")
    bed.crud("CREATE", {"name": "one"}, type="dummy")
    bed.query("dummy")
    assert bed.ways_given == before + 1
    before = bed.ways_given
    bed.ask("QUERY", {"attributeNames": [], "where": {"linkDir": "in"}}, entityType=PREFIX + "router.link")
    assert bed.ways_given == before + 2 + 1


@pytest.mark.parametrize("kind", [PREFIX + "router.link", None], ids=["one type", "all types"])
def test_what_no_response_can_hold_is_not_read(bed: Bed, kind: str | None) -> None:
    """A QUERY ends at the number of values that a response may have, however many entities there are."""
    names = {"attributeNames": ["identity"] * (MOST_VALUES // 2 + 1)}
    assert bed.ask("QUERY", names, entityType=kind, count=1)[0] == 200
    before = bed.ways_given
    assert bed.ask("QUERY", names, entityType=kind)[0] == 400
    assert bed.ways_given - before <= 2


def test_a_query_over_all_types_leaves_out_what_peers_fill(segments: segment.Segments, tmp_path: Path) -> None:
    """Connections, links and addresses, and of route tables the entries, endpoints and applications."""
    seed = tmp_path / "table"
    seed.write_text("newrt | start | T\nmse | 1 | -1 | host:4560\nnewrt | end | 1\n")
    bed = Bed(segments, f"routeTable {{\n name: t\n address: t\n seed: {seed}\n}}\n")
    while not bed.query("routeTable.entry"):
        bed.core.step(1)
    _, body = bed.ask("QUERY", {"attributeNames": ["type"]})
    found = {row[0].removeprefix(PREFIX) for row in body["results"]}
    assert "routeTable" in found
    assert not found & {"connection", "router.link", "router.address", "routeTable.entry", "routeTable.endpoint"}


@pytest.mark.parametrize("name", COLUMNS)
def test_standard_columns(bed: Bed, name: str) -> None:
    """A QUERY without names gives as many columns as qdrouterd's, whose tools count on their order."""
    _, body = bed.ask("QUERY", {}, entityType=PREFIX + name)
    assert len(body["attributeNames"]) == COLUMNS[name]
    assert body["attributeNames"][:2] == ["name", "identity"]


def test_every_entity_type_answers(bed: Bed) -> None:
    """QUERY of each type that GET-TYPES names; all values can be encoded."""
    _, types = bed.ask("GET-TYPES")
    assert len(types) > 20
    for name in types:
        status, body = bed.ask("QUERY", {}, entityType=name)
        assert status == 200
        codec.encode(codec.Envelope("x"), codec.Response(status, body))


def test_a_query_addressed_to_a_type_is_about_it(bed: Bed) -> None:
    """As with qdrouterd: the type in the place of the agent's own."""
    status, body = bed.crud("QUERY", {"attributeNames": ["linkName"]}, type=f"{PREFIX}router.link")
    assert (status, body["results"]) == (200, [["to"], ["from"]])


def test_a_request_is_logged(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """By its operation in small letters, as in qdrouterd's log."""
    with caplog.at_level("DEBUG", "AGENT"):
        bed.ask("GET-LOG")
    assert [one.getMessage().split()[0] for one in caplog.records if one.name == "AGENT"] == ["get-log"]


def test_pages(bed: Bed) -> None:
    """Offset and count cut a page out; beyond the end it is empty."""
    pages = [bed.query("router.link", "linkName", offset=i, count=1) for i in range(3)]
    assert pages == [[{"linkName": "to"}], [{"linkName": "from"}], []]


def test_query_over_all_types(bed: Bed) -> None:
    """Without a type, every entity that has one of the attributes, but those that clients make."""
    status, body = bed.ask("QUERY", {"attributeNames": ["linkName", "module"]})
    assert status == 200
    assert ["to", None] not in body["results"]
    assert [None, "DEFAULT"] in body["results"]


def test_secrets_are_told_to_nobody(bed: Bed) -> None:
    """A password in the configuration stays there."""
    (profile,) = bed.query("sslProfile")
    assert profile["name"] == "secure"
    assert "tell-nobody" not in str(bed.query("sslProfile")) + str(bed.core)


def test_what_is_configured(bed: Bed) -> None:
    """Listeners and logs as the file and its defaults say; a log entity for every module."""
    (listener,) = bed.query("listener", "name", "identity", "port", "role")
    assert listener == {"name": "here", "identity": "listener/127.0.0.1:0:here", "port": "0", "role": "normal"}
    logs = {row["module"]: row["enable"] for row in bed.query("log")}
    assert logs["DEFAULT"] == "info+"
    assert len(logs) == 17


def test_read(bed: Bed) -> None:
    """By identity or by name, with the type or without."""
    for properties in ({"type": PREFIX + "connection", "identity": "4"}, {"identity": "4", "type": "connection"}):
        status, body = bed.crud("READ", **properties)
        assert (status, body["container"]) == (200, "box")
    assert bed.crud("READ", name="wide")[1]["prefix"] == "news"
    assert bed.crud("READ", type=PREFIX + "router")[0] == 403
    assert bed.crud("READ", identity="router/me")[1]["id"] == "me"


@pytest.mark.parametrize(
    ("status", "properties", "body"),
    [
        (400, {"operation": "QUERY", "entityType": "no.such"}, {}),
        (400, {"operation": "QUERY", "entityType": 7}, {}),
        (400, {"operation": "QUERY", "offset": -1}, {}),
        (400, {"operation": "QUERY", "count": "ten"}, {}),
        (400, {"operation": "QUERY", "count": True}, {}),
        (400, {"operation": "QUERY"}, {"attributeNames": "name"}),
        (400, {"operation": "QUERY"}, {"attributeNames": [1]}),
        (400, {"operation": "QUERY"}, [1, 2]),
        (400, {"operation": "QUERY"}, {1: 2}),
        (404, {"operation": "QUERY"}, {"attributeNames": ["noSuch"]}),
        (404, {"operation": "QUERY", "entityType": "listener"}, {"attributeNames": ["noSuch"]}),
        (501, {"operation": "NONSENSE"}, {}),
        (501, {"operation": "NONSENSE", "type": "listener"}, {}),
        (501, {"operation": "REGISTER"}, {}),
        (501, {"operation": "DEREGISTER"}, {}),
        (400, {"operation": 5}, {}),
        (400, {}, {}),
        (400, {"operation": "READ", "type": "connection"}, {}),
        (400, {"operation": "READ", "type": "no.such", "identity": "4"}, {}),
        (404, {"operation": "READ", "type": "connection", "identity": "5"}, {}),
        (404, {"operation": "READ", "identity": "no such"}, {}),
        (400, {"operation": "READ", "type": "connection", "identity": {"a": 1}}, {}),
        (400, {"operation": "CREATE", "name": "x"}, {}),
        (400, {"operation": "CREATE", "type": "router.config.address"}, {"prefix": "a", "pattern": "b"}),
        (400, {"operation": "CREATE", "type": "router.config.address"}, {}),
        (400, {"operation": "CREATE", "type": "router.config.address"}, {"prefix": "news"}),
        (400, {"operation": "CREATE", "type": "router.config.address"}, {"prefix": "a", "name": "wide"}),
        (400, {"operation": "CREATE", "type": "router.config.address"}, {"prefix": "a", "priority": 10}),
        (400, {"operation": "CREATE", "type": "router.config.address"}, {"prefix": "a", "waypoint": "maybe"}),
        (400, {"operation": "CREATE", "type": "router.config.address"}, {"prefix": "a", "distribution": "all"}),
        (400, {"operation": "CREATE", "type": "router.config.address"}, {"prefix": "a", "color": "red"}),
        (400, {"operation": "CREATE", "type": "router.config.address", "name": "x"}, {"prefix": "a", "name": "y"}),
        (400, {"operation": "CREATE", "type": "listener"}, {"port": "nowhere"}),
        (501, {"operation": "UPDATE", "type": "listener", "name": "here"}, {"port": "1"}),
        (501, {"operation": "CREATE", "type": "policy"}, {}),
        (501, {"operation": "DELETE", "type": "log", "identity": "log/DEFAULT"}, {}),
        (501, {"operation": "CREATE", "type": "connection"}, {}),
        (403, {"operation": "DELETE", "type": "connection", "identity": "4"}, {}),
        (404, {"operation": "DELETE", "type": "router.config.address", "name": "no such"}, {}),
        (400, {"operation": "UPDATE", "type": "router.link", "identity": "1"}, {}),
        (400, {"operation": "UPDATE", "type": "router.link", "identity": "1"}, {"adminStatus": "gone"}),
        (400, {"operation": "UPDATE", "type": "router.link", "identity": "1"}, {"noSuch": 1}),
        (400, {"operation": "UPDATE", "type": "router.link", "identity": "1"}, {"capacity": 1}),
        (400, {"operation": "PROFILE"}, {}),
        (400, {"operation": "UPDATE", "type": "connection", "identity": "4"}, {"adminStatus": "sleepy"}),
        (400, {"operation": "UPDATE", "type": "connection", "identity": "4"}, {"host": "elsewhere"}),
        (400, {"operation": "UPDATE", "type": "connection", "identity": "4"}, {"noSuch": 1}),
        (403, {"operation": "READ", "type": PREFIX + "console"}, {}),
        (400, {"operation": "GET-LOG", "limit": "many"}, {}),
        (400, {"operation": "GET-SCHEMA", "type": "org.amqp.management", "name": {"a": 1}}, {}),
    ],
)
def test_refusals(bed: Bed, status: int, properties: dict[str, Any], body: Any) -> None:
    """What cannot be served is refused with the status that says whose fault it is, and a text."""
    message = Message(reply_to="back", properties=properties, body=body)
    _, request = codec.decode(bytes(message.encode()))
    response = bed.agent.handle(request) if isinstance(request, Request) else request
    assert (response.status, bool(response.text)) == (status, True)


@pytest.mark.parametrize(
    ("name", "guess"), [("listner", "listener"), ("lnk", "router.link"), ("router.adress", "router.address")]
)
def test_a_mistyped_entity_type(bed: Bed, name: str, guess: str) -> None:
    """The one that may be meant is named."""
    request = Message(reply_to="back", properties={"operation": "QUERY", "entityType": name}, body={})
    _, decoded = codec.decode(bytes(request.encode()))
    assert bed.agent.handle(decoded).text == f"there is no entity type {name!r}; did you mean {guess}?"


def test_the_core_s_tables_are_pools(bed: Bed) -> None:
    """By the names that tools know: room in all, and what is in use."""
    body = bed.ask("QUERY", {"attributeNames": ["typeName", "typeSize", "heldByThreads"]}, entityType="allocator")[1]
    pools = {row[0]: row[1:] for row in body["results"]}
    size, used = pools["qdr_address_t"]
    assert size > 100
    assert used == bed.core.forwarder.counts()["addresses"]
    assert pools["qd_message_t"] == pools["qdr_delivery_t"]
    octets = sum(size * used for name, (size, used) in pools.items() if name.endswith("_block"))
    assert pools["qd_buffer_t"] == [512, octets // 512]


def test_about_the_agent(bed: Bed) -> None:
    """GET-… operations, for all types or for one; the operation's case does not matter."""
    assert bed.ask("GET-ATTRIBUTES", entityType="allocator")[1].keys() == {PREFIX + "allocator"}
    assert bed.ask("GET-OPERATIONS", entityType="router.config.address")[1] == {
        PREFIX + "router.config.address": ["READ", "CREATE", "DELETE"]
    }
    assert bed.ask("get-annotations") == (200, {})
    assert bed.ask("GET-MGMT-NODES") == (200, [])
    schema = bed.ask("GET-SCHEMA")[1]
    assert schema["prefix"] == PREFIX.rstrip(".")
    assert schema["entityTypes"]["vhostUserGroupSettings"]["attributes"]["maxSenders"]["default"] == 2147483647
    assert msgspec.json.decode(bed.ask("GET-JSON-SCHEMA")[1]) == msgspec.json.decode(msgspec.json.encode(schema))
    assert bed.ask("READ")[1]["identity"] == "self"


def test_symbols_are_as_good_as_strings(bed: Bed) -> None:
    """Some clients send them."""
    status, body = bed.ask(symbol("QUERY"), {"attributeNames": [symbol("name")]}, entityType=symbol("listener"))
    assert (status, body["results"]) == (200, [["here"]])


def test_pages_asked_for_in_words(bed: Bed) -> None:
    """Numbers may be given as text, as some clients do."""
    assert len(bed.query("router.link", "name", count="1", offset="1")) == 1
    _, many = codec.decode(bytes(Message(reply_to="b", properties={"operation": "QUERY", "count": "x"}).encode()))
    assert isinstance(many, ManagementError)


def test_a_page_begins_and_ends_anywhere(bed: Bed) -> None:
    """The largest numbers of all mean an empty page, whatever is queried; larger ones are no numbers."""
    most = 2**63 - 1
    for kind in ("router.link", "listener", None):
        status, body = bed.ask("QUERY", {"attributeNames": ["name"]}, entityType=kind, offset=most, count=most)
        assert (status, body["results"]) == (200, [])
    with pytest.raises(ManagementError, match="count must be a whole number of 64 bits"):
        request_of({"operation": "QUERY", "count": str(most + 1)}, None)
    assert bed.crud("CREATE", {"num1": str(most)}, type="dummy")[0] == 201
    assert bed.crud("CREATE", {"num1": str(most + 1)}, type="dummy")[0] == 400


def test_scratch_entities(bed: Bed) -> None:
    """A client can be tried out on entities that mean nothing: made, read, changed, called, deleted."""
    status, made = bed.crud("CREATE", {"arg1": "a"}, type="dummy", name="mine")
    assert (status, made["arg1"], made["name"]) == (201, "a", "mine")
    identity = made["identity"]
    assert bed.crud("READ", None, type="dummy", name="mine") == (200, made)
    changed = bed.crud("UPDATE", {"num1": 42}, type="dummy", identity=identity)
    assert changed == (200, made | {"num1": 42})
    called = bed.crud("callme", None, type="dummy", identity=identity, data=-1)
    assert called == (200, {"operation": "callme", "type": "dummy", "identity": identity, "data": -1})
    for wrong in ({"num1": "many"}, {"arg3": 1}, {"arg1": 7}, {"identity": "dummy/9"}):
        assert bed.crud("UPDATE", wrong, type="dummy", name="mine")[0] == 400
    assert bed.crud("CREATE", {}, type="dummy", name="mine")[0] == 400
    assert bed.crud("DELETE", None, type="dummy", name="mine")[0] == 204
    assert bed.crud("callme", None, type="dummy", name="mine")[0] == 404
    assert bed.crud("callme", None, type="listener", name="here")[0] == 501


def test_scratch_entities_are_bounded(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody fills the router's memory with them."""
    monkeypatch.setattr("core.management.dummy.MOST", 1)
    assert bed.crud("CREATE", {}, type="dummy", name="x" * (LONGEST + 1))[0] == 400
    assert bed.crud("CREATE", {}, type="dummy")[0] == 201
    assert bed.crud("CREATE", {}, type="dummy")[0] == 400


def test_the_link_routes_of_a_connection_are_bounded(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is deleted makes room for another."""
    monkeypatch.setattr("core.management.link_route.MOST", 2)

    def ask(operation: str, name: str) -> int:
        properties = {"operation": operation, "type": "router.connection.linkRoute", "name": name}
        request = request_of(properties, {"pattern": f"{name[:9]}.#", "direction": "in"})
        requester = Requester(4, container="box")
        return bed.agent.handle(msgspec.structs.replace(request, requester=requester)).status

    assert ask("CREATE", "x" * (LONGEST_NAME + 1)) == 400
    assert [ask("CREATE", name) for name in ("a", "b", "c")] == [201, 201, 403]
    assert [ask("DELETE", "a"), ask("CREATE", "c"), ask("CREATE", "d")] == [204, 201, 403]


@pytest.mark.parametrize("successor", [False, True], ids=["nobody there", "another client there"])
def test_a_request_of_a_connection_that_is_gone_concerns_no_other(bed: Bed, successor: bool) -> None:
    """It waited while the connection ended, and another one may have its index: no link route is made or shown."""
    bed.say(C_CONNECTION_CLOSED, ConnectionClosed(0, 1))
    if successor:
        bed.say(C_CONNECTION_OPENED, ConnectionOpened(0, 2, "other", "10.0.0.2:7", number=5))
    bed.core.step(2)
    if successor:
        bed.core.plane(Routes).offer((0, 0), "theirs", "theirs.#", False, "other")

    def ask(operation: str, name: str) -> int:
        properties = {"operation": operation, "type": "router.connection.linkRoute", "name": name}
        request = request_of(properties, {"pattern": f"{name}.#", "direction": "in"})
        return bed.agent.handle(msgspec.structs.replace(request, requester=Requester(4, container="box"))).status

    assert [ask("CREATE", "mine"), ask("READ", "theirs"), ask("DELETE", "theirs")] == [400, 404, 404]
    assert [route.key for route in bed.core.plane(Routes).entries()] == ["Ctheirs"] * successor


def test_the_wrong_type(bed: Bed) -> None:
    """One that is there, but of another type, is told apart from one that is not there."""
    assert bed.crud("READ", None, type="sslProfile", name="here")[0] == 400
    assert bed.crud("READ", None, type="sslProfile", name="nowhere")[0] == 404


def test_attributes_without_a_value(bed: Bed) -> None:
    """READ of what qdrouterd keeps in its core tells of those, too."""
    status, read = bed.crud("READ", None, type="router.config.address", name="wide")
    assert (status, read["prefix"], read["pattern"]) == (200, "news", None)


def test_nameless_entities(bed: Bed) -> None:
    """Beside entities of other types one without a name goes by its type and identity."""
    assert bed.crud("CREATE", {"prefix": "p"}, type="router.config.address")[0] == 201
    _, body = bed.ask("QUERY", {"attributeNames": ["type", "name"]})
    assert all(name for _, name in body["results"])


def test_abstract_types(bed: Bed) -> None:
    """They are told of with the others, and stand for all entities of the types that extend them."""
    _, types = bed.ask("GET-TYPES")
    assert types[PREFIX + "configurationEntity"] == [PREFIX + "entity"]
    _, some = bed.ask("GET-TYPES", entityType="configurationEntity")
    assert PREFIX + "listener" in some
    assert PREFIX + "router.link" not in some
    _, body = bed.ask("QUERY", {"attributeNames": ["type"]}, entityType="operationalEntity")
    assert [PREFIX + "worker"] in body["results"]
    assert [PREFIX + "listener"] not in body["results"]
    assert bed.ask("GET-OPERATIONS")[1][PREFIX + "management"][-1] == "READ"


def test_the_host_of_a_connector_is_as_configured(bed: Bed) -> None:
    """qdrouterd and those who look for their connectors write IPv6 addresses without brackets."""
    opened = ConnectionOpened(9, 1, "far", "[::1]:5672", number=17, connector="c")
    bed.say(C_CONNECTION_OPENED, opened)
    bed.core.step(2)
    rows = {row["identity"]: row["host"] for row in bed.query("connection", "identity", "host")}
    assert rows["17"] == "::1:5672"


def test_binary_values_outlive_their_message() -> None:
    """What is answered from them does not stand in memory that is gone, however deep they are."""
    body = {"text": b"bytes", "list": [b"bytes", {"in": b"bytes"}]}
    message = Message(reply_to="back", properties={"operation": "CALLME", "data": b"bytes"}, body=body)
    _, request = codec.decode(bytes(message.encode()))
    assert isinstance(request, Request)
    assert request.body == body
    assert type(request.body["text"]) is bytes
    assert type(request.body["list"][1]["in"]) is bytes
    assert type(request.properties["data"]) is bytes
    assert request.properties["data"] == b"bytes"
