"""For whom HTTP listeners answer: names that pages rebind, and origins of pages that open WebSockets."""

import logging
import socket
from email.message import Message
from http import HTTPStatus

import pytest

from routerd.config import ConfigError, parse
from routerd.exporter import websocket
from routerd.exporter.gate import Gate, ShutError
from routerd.exporter.server import Door
from tests.support.beds.http import Bed

OWN = ("10.0.0.7", "10.0.0.7:5673", "[::1]:8080", "[fd00::7]", "localhost", "LocalHost.:1", socket.gethostname())
GIVEN = ("router.example", "ROUTER.example:9090", "a.inside.example", "b.a.inside.example:1")
FOREIGN = (
    "evil.example",
    "router.example.evil.example",
    "inside.example",
    "xinside.example",
    "localhost.evil",
    "127.0.0.1.evil",
)
NO_HOSTS = (
    "", " ", ":80", "a b", "a:b", "a:123456", "ä.example", "a,b", "[::1", "::1", "[x]", "a/b",
    "user@localhost", "localhost\x00", "x" * 300, "localhost" + "0" * 9000, "l\u043ecalhost",
)  # fmt: skip
GATE = Gate(
    ["router.example", "*.inside.example"], ["https://app.example", "capacitor://localhost", "http://b.example:8080"]
)


def headers(**values: str | list[str]) -> "Message[str, str]":
    made: Message[str, str] = Message()
    for name, given in values.items():
        for value in given if isinstance(given, list) else [given]:
            made[name] = value
    return made


def status(gate: Gate, host: str | list[str], path: str = "/", version: str = "HTTP/1.1") -> int:
    """What a request for that host gets, 200 if it is not refused."""
    try:
        gate.host(headers(Host=host), path, version)
    except ShutError as shut:
        return shut.status
    return 200


def test_a_host_is_an_address_the_machine_s_name_or_configured() -> None:
    """Case, a final dot and the port do not matter; a star stands for all names below."""
    assert {host: status(GATE, host) for host in (*OWN, *GIVEN)} == dict.fromkeys((*OWN, *GIVEN), 200)
    assert {host: status(GATE, host) for host in FOREIGN} == dict.fromkeys(FOREIGN, 421)
    assert {host: status(Gate(), host) for host in (*GIVEN, *FOREIGN)} == dict.fromkeys((*GIVEN, *FOREIGN), 421)
    assert {host: status(Gate(["*"]), host) for host in FOREIGN} == dict.fromkeys(FOREIGN, 200)


def test_what_names_no_host_or_two_is_refused() -> None:
    """Whatever is allowed; only HTTP/1.0 may leave the name out."""
    for gate in (GATE, Gate(["*"])):
        assert {host: status(gate, host) for host in NO_HOSTS} == dict.fromkeys(NO_HOSTS, 400)
        assert status(gate, ["localhost", "localhost"]) == 400
        assert (status(gate, []), status(gate, [], version="HTTP/1.0")) == (400, 200)


def test_the_host_of_a_whole_url_counts_as_well() -> None:
    """As a proxy would send it."""
    assert status(GATE, "localhost", "http://localhost/metrics") == 200
    assert status(GATE, "localhost", "http://evil.example/metrics") == 421
    assert status(GATE, [], "http://evil.example/metrics", "HTTP/1.0") == 421
    assert status(GATE, "evil.example", "http://localhost/metrics") == 421


@pytest.mark.parametrize(
    ("origin", "host", "secured", "allowed"),
    [
        ([], "localhost:80", False, True),
        ("http://localhost:5673", "localhost:5673", False, True),
        ("http://LOCALHOST:5673", "localhost:5673", False, True),
        ("http://10.0.0.7", "10.0.0.7:80", False, True),
        ("http://[::1]:5673", "[::1]:5673", False, True),
        ("https://localhost", "localhost:443", True, True),
        ("https://app.example", "localhost:5673", False, True),
        ("https://app.example:443", "localhost:5673", False, True),
        ("capacitor://localhost", "localhost:5673", False, True),
        ("http://app.example", "localhost:5673", False, False),
        ("https://app.example:8443", "localhost:5673", False, False),
        ("http://b.example", "localhost:5673", False, False),
        ("http://localhost:5674", "localhost:5673", False, False),
        ("http://localhost", "localhost:5673", False, False),
        ("https://localhost:5673", "localhost:5673", False, False),
        ("http://localhost:5673", "localhost:5673", True, False),
        ("http://evil.example", "localhost:5673", False, False),
        ("http://localhost:5673.evil.example", "localhost:5673", False, False),
        ("http://localhost:5673@evil.example", "localhost:5673", False, False),
        ("null", "localhost:5673", False, False),
        ("file://", "localhost:5673", False, False),
        ("", "localhost:5673", False, False),
        ("http://ä.example", "localhost:5673", False, False),
        ("http://" + "a" * 9000, "localhost:5673", False, False),
        (["http://localhost:5673", "http://localhost:5673"], "localhost:5673", False, False),
        (["http://localhost:5673", "http://evil.example"], "localhost:5673", False, False),
    ],
)  # fmt: skip
def test_pages_of_the_same_origin_and_those_listed_may_open_websockets(
    origin: str | list[str], host: str, secured: bool, allowed: bool
) -> None:
    """Scheme, host and port count; who says no origin is no page; a star allows all, once."""
    said = headers(Host=host, Origin=origin)
    named = GATE.host(said, "/", "HTTP/1.1")
    if allowed:
        GATE.page(said, named, secured)
        return
    with pytest.raises(ShutError, match="allowedOrigins") as shut:
        GATE.page(said, named, secured)
    assert len(str(shut.value)) < 300
    assert str(shut.value).isprintable()
    assert shut.value.status == HTTPStatus.FORBIDDEN
    if not isinstance(origin, list):
        Gate(origins=["*"]).page(said, named, secured)


def test_a_page_from_elsewhere_is_refused_and_told(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """421 for the name and 403 for the origin, with what would allow it; counted, and a flood is one line."""
    caplog.set_level(logging.INFO, "HTTP")
    ours, theirs = socket.socketpair()
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    bed.address = listening.getsockname()
    bed.server.listen({listening: Door(lambda _: pytest.fail("was asked"), Gate(), None, ours)})
    upgrade = "Upgrade: websocket\r\nOrigin: http://evil.example\r\n"
    rebound = bed.ask(b"GET /status.json HTTP/1.1\r\nHost: evil.example:1\r\n\r\n")
    assert rebound.startswith(b"HTTP/1.1 421 ")
    assert b"'evil.example'; add it to allowedHosts" in rebound
    for _ in range(3):
        foreign = bed.ask(f"GET / HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n".encode())
        assert foreign.startswith(b"HTTP/1.1 403 ")
        assert b"allowedOrigins" in foreign
    assert (bed.server.refused["host"], bed.server.refused["origin"]) == (1, 3)
    assert len(caplog.records) == 1
    assert "refused: host: nothing is served here under the name 'evil.example'" in caplog.text
    theirs.close()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("http: yes\nhost: 127.0.0.1", ""),
        ("http: yes\nhost: localhost\nallowedHosts: a.example, *.b.example 10.0.0.1 *", ""),
        ("http: yes\nhost: ::1\nallowedOrigins: https://a.example http://b:1, app://x", ""),
        ("http: yes\nhost: ::1\nallowedHosts: a.example:80", "'a.example:80' is not a host name"),
        ("http: yes\nhost: ::1\nallowedHosts: ä", "allowedHosts: 'ä' is not a host name"),
        ("http: yes\nhost: ::1\nallowedOrigins: a.example", "'a.example' is not an origin"),
        ("http: yes\nhost: ::1\nallowedOrigins: http://a.example/path", "allowedOrigins"),
        ("http: yes\nhost: ::1\nallowedOrigins: *", "lets every web page use the router without a login"),
        ("allowedOrigins: http://a.example", "has no effect without http: yes"),
        ("http: yes", "without a login; set authenticatePeer: yes, or websockets: no"),
        ("http: yes\nwebsockets: no", ""),
        ("http: yes\nhost: 0.0.0.0\nsaslPlugin: s", ""),
    ],
)
def test_check_knows_names_from_origins_and_tells_of_open_doors(text: str, told: str) -> None:
    """A word that could fit nothing is a mistake; AMQP for everybody without a login is a warning."""
    plugin = "authServicePlugin {\nname: s\nhost: 127.0.0.1\n}\n" if "saslPlugin" in text else ""
    try:
        found = "\n".join(one.text for one in parse(f"{plugin}listener {{\nport: 0\n{text}\n}}\n", "f").warnings)
    except ConfigError as error:
        found = str(error)
    assert told in found
    assert bool(told) == bool(found)


def test_a_client_may_offer_its_subprotocols_in_several_headers() -> None:
    """RFC 6455, 11.3.4: as if they were in one."""
    headers = Message()
    headers["Sec-WebSocket-Version"], headers["Sec-WebSocket-Key"] = "13", "dGhlIHNhbXBsZSBub25jZQ=="
    for offered in ("chat", "amqp, binary"):
        headers["Sec-WebSocket-Protocol"] = offered
    assert b"\r\nSec-WebSocket-Protocol: amqp\r\n" in websocket.granted(headers)
