"""AMQP over WebSockets, at an HTTP listener: frames of all sizes, control frames, and what is refused."""

import re
from collections.abc import Iterator

import pytest
from proton import Message

from tests.support.clients.websocket import ACCEPT, CLOSE, PING, PONG, WebSocket, ask, frame
from tests.support.peer import ACCEPTED, Net, Peer
from tests.support.running import LONG, Configuration, RunningRouter

AMQP = b"AMQP\x03\x01\x00\x00"


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    listener = "listener {{\n host: 127.0.0.1\n port: 0\n http: yes\n {}\n}}\n"
    return Configuration(router="workers: 2", sections=listener.format("") + listener.format("websockets: no"))


@pytest.fixture
def places(router: RunningRouter) -> list[tuple[str, int]]:
    """Of the HTTP listener that serves WebSockets, and of the one that does not."""
    return [("127.0.0.1", int(port)) for port in re.findall(r"http://127.0.0.1:(\d+)", router.output)]


def granted(place: tuple[str, int], piece: int = 0) -> WebSocket:
    sock, head = ask(place)
    assert head.startswith("HTTP/1.1 101 ")
    assert f"Sec-WebSocket-Accept: {ACCEPT}\r\n" in head
    assert "Sec-WebSocket-Protocol: amqp\r\n" in head
    return WebSocket(sock, piece)


def client(net: Net, sock: WebSocket) -> Peer:
    peer = Peer(net, sock)
    net.peers.append(peer)
    return peer.open()


@pytest.fixture
def raw(places: list[tuple[str, int]]) -> Iterator[WebSocket]:
    """A client that writes its frames itself."""
    sock = granted(places[0])
    yield sock
    sock.close()


def test_messages_of_all_sizes(net: Net, places: list[tuple[str, int]]) -> None:
    """Between a client over a WebSocket and one without, both ways; frames have headers of three lengths."""
    web, plain = client(net, granted(places[0])), net.peer()
    for at, to in ((web, plain), (plain, web)):
        receiver, sender = at.receiver(f"ws.{at is web}", 10), to.ready_sender(f"ws.{at is web}")
        for size in (0, 1, 100, 126, 40_000, 70_000, 1_000_000):
            sent = net.send(sender, Message(body=bytes(size)))
            (got,) = at.take(receiver)
            assert got.body == bytes(size)
            got.settle()
            assert net.settled(sent) == [ACCEPTED]
            receiver.flow(1)


def test_frames_that_come_byte_by_byte(net: Net, places: list[tuple[str, int]]) -> None:
    """Headers and masks are cut in two, too."""
    web = client(net, granted(places[0], piece=1))
    receiver, sender = web.receiver("ws.bytes", 10), web.ready_sender("ws.bytes")
    net.send(sender, Message(body="x" * 300), settled=True)
    assert web.take(receiver)[0].body == "x" * 300


def test_the_peer_is_who_it_is(net: Net, places: list[tuple[str, int]], router: RunningRouter) -> None:
    """Its address stands in the log, not the exporter's."""
    sock = granted(places[0])
    host, port = sock.getsockname()
    web = client(net, sock)
    net.round_trips(web)
    assert f"connection from {host}:{port} opened" in router.log


def heard(sock: WebSocket, number: int) -> list[tuple[int, bytes]]:
    """So many control frames, or those before the end."""
    sock.settimeout(LONG)
    while len(sock.heard) < number:
        try:
            if not sock.recv(1000):
                break
        except BlockingIOError:
            pass
    return sock.heard


def test_a_ping_is_answered(raw: WebSocket) -> None:
    """Also between the parts of a message, and with what it said."""
    raw.put(frame(AMQP[:3], flags=0) + frame(b"are you there", PING) + frame(AMQP[3:], 0))
    heard(raw, 1)
    raw.put(frame(b"", PONG) + frame(b"again", PING))
    assert heard(raw, 2) == [(PONG, b"are you there"), (PONG, b"again")]


@pytest.mark.parametrize("status", [1000, 1001, 1003, 1007, 1011, 1014, 3000, 4999])
def test_a_close_is_answered(raw: WebSocket, status: int) -> None:
    """With its status; then the connection ends."""
    raw.put(frame(status.to_bytes(2, "big") + "I go, ä".encode(), CLOSE))
    assert heard(raw, 2) == [(CLOSE, status.to_bytes(2, "big"))]
    assert raw.recv(10) == b""


@pytest.mark.parametrize("status", [0, 999, 1004, 1005, 1006, 1015, 2999, 5000, 65535])
def test_a_status_that_nobody_may_send_is_not_repeated(raw: WebSocket, status: int) -> None:
    """RFC 6455, 7.4."""
    raw.put(frame(status.to_bytes(2, "big") + b"I go", CLOSE))
    assert heard(raw, 2) == [(CLOSE, (1002).to_bytes(2, "big"))]


@pytest.mark.parametrize("reason", [b"\xff", b"I go \xc3", b"\xed\xa0\x80", bytes(100) + b"\x80"])
def test_a_reason_that_is_no_text(raw: WebSocket, reason: bytes) -> None:
    """RFC 6455, 5.5.1 and 8.1."""
    raw.put(frame((1000).to_bytes(2, "big") + reason, CLOSE))
    assert heard(raw, 2) == [(CLOSE, (1007).to_bytes(2, "big"))]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (frame(AMQP, mask=b""), 1002),
        (frame(AMQP, 1), 1003),
        (frame(AMQP, 3), 1002),
        (frame(AMQP, 11), 1002),
        (frame(AMQP, flags=0xC0), 1002),
        (frame(bytes(126), PING), 1002),
        (frame(b"", PING, flags=0), 1002),
        (bytes([0x82, 0xFF]) + b"\xff" * 12, 1002),
        (frame(b"\x03", CLOSE), 1002),
        (frame(AMQP, 0), 1002),
        (frame(AMQP, 0, flags=0), 1002),
        (frame(AMQP[:3], flags=0) + frame(AMQP[3:]), 1002),
        (frame(AMQP[:3], flags=0) + frame(AMQP[3:6], 0) + frame(AMQP[6:], 0), 1002),
    ],
    ids=[
        "not masked",
        "text",
        "unknown",
        "unknown control",
        "reserved",
        "long ping",
        "part of a ping",
        "endless",
        "half a status",
        "continues nothing",
        "continues nothing and goes on",
        "message in a message",
        "continues what is over",
    ],
)
def test_frames_that_are_none(raw: WebSocket, sent: bytes, status: int) -> None:
    """The connection ends with the status that says so."""
    raw.put(sent)
    assert heard(raw, 2) == [(CLOSE, status.to_bytes(2, "big"))]


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"Sec_WebSocket_Version": "8"}, "version 13"),
        ({"Sec_WebSocket_Key": "short"}, "Sec-WebSocket-Key"),
        ({"Sec_WebSocket_Key": None}, "Sec-WebSocket-Key"),
        ({"Sec_WebSocket_Protocol": "chat, mqtt"}, "amqp"),
        ({"Sec_WebSocket_Protocol": None}, "amqp"),
    ],
)
def test_what_is_refused(places: list[tuple[str, int]], headers: dict[str, str | None], text: str) -> None:
    """400, and what would be right."""
    sock, head = ask(places[0], **headers)
    with sock:
        assert head.startswith("HTTP/1.1 400 ")
        assert text in sock.recv(1000).decode()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, "403"),
        ({"Origin": "null"}, "403"),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, "421"),
        ({"Host": "localhost:1", "Origin": "http://localhost:1"}, "101"),
    ],
)
def test_pages_from_elsewhere_are_refused(
    places: list[tuple[str, int]], headers: dict[str, str | None], status: str
) -> None:
    """A browser on this machine opens no WebSocket for them, also not by DNS rebinding."""
    sock, head = ask(places[0], **headers)
    sock.close()
    assert head.startswith(f"HTTP/1.1 {status} ")


def test_a_listener_may_leave_it_out(places: list[tuple[str, int]]) -> None:
    """Then a request for a WebSocket is a request like any other."""
    sock, head = ask(places[1])
    sock.close()
    assert head.startswith("HTTP/1.1 200 ")


def test_what_is_no_amqp_ends_that_connection_alone(raw: WebSocket, net: Net) -> None:
    """As on any connection."""
    raw.put(frame(b"GET / HTTP/1.1\r\n\r\n"))
    assert heard(raw, 1)[0][0] == CLOSE
    net.round_trips(net.peer())
