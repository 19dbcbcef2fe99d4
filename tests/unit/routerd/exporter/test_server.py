"""The HTTP server against clients that behave and clients that do not; time is the test's."""

import logging
import socket

import pytest

from routerd.exporter import server as http
from routerd.exporter.server import TELL_SECONDS, Door
from tests.support.beds.http import GATE, LARGE, Bed, site


def get(path: str, more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: router\r\n{more}\r\n".encode()


def test_a_request_is_answered_and_the_connection_closed(bed: Bed) -> None:
    """Path, parameters and Accept header reach the site; the answer has its length and cannot be misread."""
    head, _, body = bed.ask(get("/a?b=1&b=2", "Accept: text/x\r\n")).partition(b"\r\n\r\n")
    assert body == b"/a {'b': ['1', '2']} text/x"
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    expected = {f"Content-Length: {len(body)}".encode(), b"Connection: close", b"X-Own: 1"}
    assert expected | {b"X-Content-Type-Options: nosniff"} <= set(lines)
    assert bed.server.answered == {200: 1}


def test_a_request_may_come_in_pieces(bed: Bed) -> None:
    """Byte by byte, also with bare line feeds."""
    client = bed.client()
    for i in range(len(request := b"GET /a HTTP/1.0\n\n")):
        client.sendall(request[i : i + 1])
        bed.turn(1)
    assert b"/a {}" in bed.answer(client)


def test_large_answers_wait_for_the_client(bed: Bed) -> None:
    """Nothing is lost, and others are served meanwhile."""
    slow = bed.client(get("/large"))
    bed.turn()
    assert b"/quick" in bed.ask(get("/quick"))
    assert len(bed.answer(slow).partition(b"\r\n\r\n")[2]) == LARGE


def test_head_gets_no_body(bed: Bed) -> None:
    """But its length."""
    answer = bed.ask(b"HEAD /a HTTP/1.0\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 6" in answer


@pytest.mark.parametrize(
    ("says", "status"),
    [
        (b"POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", 405),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"AMQP\x00\x01\x00\x00\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"GET http://[x HTTP/1.1\r\nHost: router\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
        (b"GET /" + b"x" * 20_000, 431),
    ],
)
def test_what_is_no_request_gets_an_error(bed: Bed, says: bytes, status: int) -> None:
    """The right status, a counter, and nobody else is troubled."""
    assert bed.ask(says).startswith(f"HTTP/1.1 {status} ".encode())
    assert bed.server.refused["malformed"] + bed.server.refused["host"] == (status != 405)
    assert b"200 OK" in bed.ask(get("/"))


@pytest.mark.parametrize("first", [1, 1460, 8000, 8192])
def test_a_long_request_line_hides_no_host(bed: Bed, first: int) -> None:
    """However a head is cut into pieces: a line that is too long is refused, and a line's rest is no header."""
    says = b"GET /metrics?" + b"a" * 8280 + b" HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    client = bed.client(says[:first])
    bed.turn()
    client.sendall(says[first:])
    assert bed.answer(client).startswith(b"HTTP/1.1 431 ")


def test_silent_and_trickling_clients_are_dropped(bed: Bed) -> None:
    """The whole head is due 5 s after the connection came: a byte now and then does not help."""
    silent, trickling = bed.client(), bed.client(b"GET / HTT")
    for _ in range(int(http.HEAD_SECONDS)):
        trickling.sendall(b"P")
        bed.turn(2, 1.0)
    bed.turn()
    assert len(bed.server) == 0
    assert silent.recv(10) == b""
    assert bed.server.refused["slow"] == 2


def test_a_client_that_takes_nothing_is_dropped(bed: Bed) -> None:
    """10 s after the answer was ready."""
    bed.client(get("/large"))
    bed.turn(4, http.ANSWER_SECONDS - 0.1)
    bed.turn()
    assert len(bed.server) == 1
    bed.turn(4, 0.2)
    bed.turn()
    assert len(bed.server) == 0
    assert bed.server.refused["slow"] == 1


def test_a_client_that_does_not_close_is_not_waited_for(bed: Bed) -> None:
    """A second after its answer its place is free, whatever it goes on saying; that is no offence."""
    client = bed.client(get("/"))
    bed.turn(4, http.CLOSING_SECONDS + 0.1)
    client.sendall(b"x" * 1000)
    bed.turn()
    assert len(bed.server) == 0
    assert sum(bed.server.refused.values()) == 0


def test_a_flood_of_those_who_take_nothing_is_bounded(bed: Bed) -> None:
    """They have asked, and take all places; after a second a new one gets in at the oldest one's cost."""
    for _ in range(http.MOST):
        bed.client(get("/large"))
        bed.turn(1)
    late = bed.client(get("/late"))
    bed.turn(20)
    assert len(bed.server) == http.MOST
    assert bed.server.refused["crowded"] == 0
    bed.now += http.CROWDED_SECONDS
    bed.turn(4)
    assert bed.server.refused["crowded"] >= 1
    assert b"/late" in bed.answer(late)


def test_those_who_always_have_more_to_say_keep_nobody_out(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that are ready have their turn, in the order of their descriptors: also the listening socket."""
    monkeypatch.setattr(http, "SERVED_MOST", 2)
    talkers = [bed.client(get("/")) for _ in range(4)]
    bed.turn(20)
    assert len(bed.server) == len(talkers)
    for talker in talkers:
        talker.sendall(bytes(40 * http.HEAD_BYTES))
    bed.turn(1)
    late = bed.client(get("/late"))
    bed.turn(6)
    late.settimeout(0.5)
    assert b"/late" in late.recv(1000)


def test_clients_that_vanish_leave_nothing(bed: Bed) -> None:
    """Resets in every state."""
    for says in (b"", b"GET /", get("/large")):
        client = bed.client(says)
        bed.turn(2)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        client.close()
    bed.turn()
    assert len(bed.server) == 0
    assert b"200 OK" in bed.ask(get("/"))


def test_listening_sockets_can_change(bed: Bed) -> None:
    """The old one is closed, connections that it brought are still answered, and the new one serves."""
    waiting = bed.client(b"GET /old ")
    bed.turn()
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    old, bed.address = bed.address, listening.getsockname()
    bed.server.listen({listening: Door(site, GATE)})
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(old, timeout=20)
    waiting.sendall(b"HTTP/1.0\r\n\r\n")
    assert b"/old" in bed.answer(waiting)
    assert b"/new" in bed.ask(get("/new"))


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        (b"AMQP\x03\x01\x00\x00", "the client speaks AMQP, and the listener HTTP"),
        (b"\x16\x03\x01\x05", "the client speaks TLS, and the listener has no sslProfile"),
    ],
)
def test_who_knocks_at_the_wrong_port_is_told_so(
    bed: Bed, octets: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At once: it waits for an answer, and would leave in the end with nothing but its patience to tell of."""
    caplog.set_level(logging.INFO, "HTTP")
    assert bed.ask(octets).endswith(f"{why}\n".encode())
    assert caplog.messages[0].endswith(f"refused: malformed: {why}")


def test_a_refused_client_is_named_and_a_flood_is_few_lines(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """Whom to look for stands in the log; how many, in the counter."""
    caplog.set_level(logging.INFO, "HTTP")
    first = bed.client(b"nonsense\r\n\r\n")
    name = "{}:{}".format(*first.getsockname())
    bed.turn()
    for _ in range(3):
        bed.client(b"nonsense\r\n\r\n")
        bed.turn()
    bed.now += TELL_SECONDS
    bed.client(b"nonsense\r\n\r\n")
    bed.turn()
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == f"HTTP client {name} refused: malformed: Bad Request"
    assert len(lines) == 2
    assert lines[1].endswith("(and 3 more since the last such line)")
    assert bed.server.refused["malformed"] == 5


def test_a_page_that_cannot_be_made_takes_no_other_with_it(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """It is answered with 500 and told with its traceback, once a minute; the process serves on."""
    for _ in range(3):
        assert bed.ask(b"GET /broken HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").startswith(b"HTTP/1.1 500 ")
    assert bed.ask(b"GET /well HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert bed.server.answered[500] == 3
    (told,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert told.exc_info
    bed.now += 60.0
    bed.ask(b"GET /broken HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 2
