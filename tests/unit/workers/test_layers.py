"""The lane's place in the engine's transport: the engine's tables, and each way in which a connection begins.

AMQP 1.0 part 2.2 (headers), part 5 (TLS and SASL).
"""

from __future__ import annotations

import ctypes
import re
import socket
import ssl
import struct
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import cproton_ffi
import pytest
from proton import symbol, ubyte, uint

from shm.contract.payloads import ConnectionOpened
from shm.contract.security import TlsSetup
from tests.support.beds.door import Client, Door
from tests.support.beds.stand import Stand
from tests.support.certificates import Authority, Certificate
from tests.support.clients.sasl_frames import INIT, MECHANISMS, OUTCOME, SASL_HEADER, sasl
from tests.support.clients.wire import AMQP_HEADER, ATTACH, BEGIN, CLOSE, DETACH, END, OPEN, begin, described, frame
from workers.loop import engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]
BUFFER = 8192  # octets of a new transport's buffers
WORDS = 64  # of a transport, among which the lane looks for its table
OPENING = frame(0, described(OPEN, "peer"))
CLOSING = frame(0, described(CLOSE))


INITIAL = sasl(INIT, symbol("ANONYMOUS"), b"")


# ---- the engine's tables ----


def native() -> ctypes.CDLL:
    library = ctypes.CDLL(cproton_ffi.__file__)
    library.pn_transport.restype = ctypes.c_void_p
    return library


@pytest.mark.parametrize("name", engine.PRIVATE)
def test_the_engine_has_what_the_lane_needs(name: str) -> None:
    """Undeclared functions and tables that another build of the engine may hide."""
    assert hasattr(native(), name)


def test_everything_undeclared_that_bodies_name_is_checked_at_the_start() -> None:
    """The bodies declare such names by themselves, as extern."""
    named: set[str] = set()
    for body in (ROOT / "workers").rglob("*.c"):
        text = "" if body.with_suffix(".pyx").exists() else body.read_text(encoding="utf-8")
        for declared in re.findall(r"^extern (?!GLUE)(.*?);", text, re.DOTALL | re.MULTILINE):
            named |= set(re.findall(r"(\w+)\(" if "(" in declared else r"(\w+)(?=,|$)", declared))
    assert named == set(engine.PRIVATE)


def test_a_new_transport_has_the_table_where_the_lane_looks() -> None:
    library = native()
    transport = library.pn_transport()
    try:
        words = (ctypes.c_void_p * WORDS).from_address(transport)
        setup = ctypes.addressof(ctypes.c_char.in_dll(library, "pni_setup_layer"))
        assert list(words).count(setup) == 1
    finally:
        library.pn_transport_free(ctypes.c_void_p(transport))


def test_a_new_transport_has_its_buffers_where_the_lane_looks() -> None:
    """Size, octets that wait, and where: of the output, and behind it of the input."""
    library = native()
    transport = library.pn_transport()
    try:
        words = list((ctypes.c_size_t * WORDS).from_address(transport))
        out, into = (at for at, word in enumerate(words) if word == BUFFER)
        assert into == out + 3
        assert words[out + 1] == words[into + 1] == 0
        assert words[out + 2]
        assert words[into + 2]
    finally:
        library.pn_transport_free(ctypes.c_void_p(transport))


def test_the_layers_are_tables_of_five_pointers() -> None:
    """In, out, error, tick, held; the AMQP layer holds nothing back."""
    table = (ctypes.c_void_p * 5).in_dll(native(), "amqp_layer")
    assert all(table[:4])
    assert table[4] is None


def test_the_engine_is_pinned() -> None:
    """The same version wherever one is named."""
    named = f"python-qpid-proton=={engine.VERSION}"
    assert named in (ROOT / "constraints.txt").read_text(encoding="ascii").split()
    assert f'"{named}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert version("python-qpid-proton") == engine.VERSION


def test_another_engine_is_refused_with_the_version_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything of it is called."""
    monkeypatch.setattr(engine, "PRIVATE", ("amqp_layer", "no_such_layer"))
    with pytest.raises(ImportError, match=rf"no_such_layer.*python-qpid-proton {re.escape(engine.VERSION)}"):
        engine.load()


# ---- connections that begin ----


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Certificate:
    return authority.issue("server", "/CN=localhost")


WAYS = ("plain", "sasl", "tls", "tls and sasl")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def client(way: str, certificate: Certificate) -> Iterator[Client]:
    """A client of which TLS has been agreed, if it is wanted."""
    tls = context = None
    if "tls" in way:
        files = str(certificate.certificate), str(certificate.key)
        tls = TlsSetup("tls", *files, required=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    door = Door(f"layers-{way.replace(' ', '-')}", tls)
    client = Client(door, door.dial(), context)
    if context:
        client.secure()
    yield client
    client.socket.close()
    door.end()


def greet(client: Client, way: str) -> None:
    """What the client says before its AMQP header, and what it hears."""
    if "sasl" not in way:
        return
    client.write(SASL_HEADER)
    assert client.take(8) == SASL_HEADER
    client.frames(MECHANISMS)
    client.write(INITIAL)
    client.frames(OUTCOME)


def before(way: str) -> bytes:
    """The same, said without waiting."""
    return SASL_HEADER + INITIAL if "sasl" in way else b""


def heard(client: Client, way: str) -> None:
    """And its answers."""
    if "sasl" in way:
        assert client.take(8) == SASL_HEADER
        client.frames(MECHANISMS, OUTCOME)


LINK = frame(0, described(ATTACH, "link", uint(7), True))
WORDS_OF_A_SESSION = (
    OPENING,
    begin(0),
    LINK,
    frame(0, described(DETACH, uint(7), True)),
    frame(0, described(END)),
    CLOSING,
)
ANSWERS = (OPEN, BEGIN, ATTACH, DETACH, END, CLOSE)


def test_a_connection_begins_step_by_step(client: Client, way: str) -> None:
    """Each side waits for the other; the core hears of it."""
    greet(client, way)
    client.write(AMQP_HEADER)
    assert client.take(8) == AMQP_HEADER
    client.write(OPENING)
    client.frames(OPEN)
    assert client.stand.hear(ConnectionOpened)[0].container == "peer"
    client.write(begin(0))
    assert client.frames(BEGIN)[0][0] == 0
    client.write(CLOSING)
    client.frames(CLOSE)
    assert client.over() == b""


def test_a_connection_begins_without_waiting(client: Client, way: str) -> None:
    """Headers, SASL and frames in one write: a header's reader must not take the frames behind it."""
    client.write(before(way) + AMQP_HEADER + OPENING + begin(0) + begin(1) + CLOSING)
    heard(client, way)
    assert client.take(8) == AMQP_HEADER
    _, first, second, _ = client.frames(OPEN, BEGIN, BEGIN, CLOSE)
    assert (first[0], second[0]) == (0, 1)
    assert client.over() == b""


def test_a_session_and_a_link_that_end_in_the_read_in_which_they_begin(client: Client, way: str) -> None:
    """Their answers name the peer's channel, and stand in order."""
    client.write(before(way) + AMQP_HEADER + b"".join(WORDS_OF_A_SESSION))
    heard(client, way)
    assert client.take(8) == AMQP_HEADER
    _, begun, attached, detached, _, _ = client.frames(*ANSWERS)
    assert begun[0] == 0
    assert attached[:2] == ["link", detached[0]]
    assert client.over() == b""


def test_octet_by_octet(client: Client, way: str) -> None:
    """A header, and a frame, may come in any pieces."""
    words = before(way) + AMQP_HEADER + OPENING + begin(0)
    client.write(*(words[at : at + 1] for at in range(len(words))))
    heard(client, way)
    assert client.take(8) == AMQP_HEADER
    client.frames(OPEN, BEGIN)


def test_a_connection_that_rested_goes_on(client: Client, way: str) -> None:
    """It has given its buffers back; what then comes fills them, and so does its answer."""
    greet(client, way)
    client.write(AMQP_HEADER)
    client.take(8)
    client.write(OPENING)
    client.frames(OPEN)
    for _ in range(2):
        client.rest(0.3)
        client.write(b"".join(begin(channel) for channel in range(100)))
        client.frames(*[BEGIN] * 100)
        client.rest(0.3)
        client.write(b"".join(frame(channel, described(END)) for channel in range(100)))
        client.frames(*[END] * 100)


WRONG = {
    "protocol": b"AMQQ\0\1\0\0",
    "version": b"AMQP\0\0\x09\1",
    "kind": b"AMQP\7\1\0\0",
    "words": b"GET / HTTP/1.1\r\n",
    "sasl again": SASL_HEADER,
}


@pytest.mark.parametrize("header", WRONG.values(), ids=WRONG)
def test_a_wrong_header_ends_the_connection(client: Client, way: str, header: bytes) -> None:
    """With ours, so that the peer sees what is spoken here (2.2); TLS ends without."""
    if header == SASL_HEADER and "sasl" not in way:
        pytest.skip("SASL is allowed here")
    greet(client, way)
    client.write(header)
    assert client.over().startswith(b"" if client.tls else b"AMQP")


PHASES = {
    "nothing": b"",
    "half a header": AMQP_HEADER[:5],
    "the header": AMQP_HEADER,
    "half a frame's head": AMQP_HEADER + OPENING[:5],
    "half of OPEN": AMQP_HEADER + OPENING[:-3],
    "OPEN": AMQP_HEADER + OPENING,
    "half of BEGIN": AMQP_HEADER + OPENING + begin(0)[:-3],
    "BEGIN": AMQP_HEADER + OPENING + begin(0),
    "CLOSE": AMQP_HEADER + OPENING + begin(0) + CLOSING,
}


@pytest.mark.parametrize("words", PHASES.values(), ids=PHASES)
def test_the_end_comes_at_any_point(client: Client, way: str, words: bytes) -> None:
    """The connection ends at once, and is forgotten."""
    if client.tls:
        pytest.skip("TLS ends with its own words; the octets below are the same")
    greet(client, way)
    client.write(words)
    client.finish()
    client.over()
    client.stand.until(lambda: not client.stand.pump.connections, "its end")


@pytest.mark.parametrize("words", PHASES.values(), ids=PHASES)
def test_the_socket_breaks_at_any_point(client: Client, way: str, words: bytes) -> None:
    greet(client, way)
    client.write(words)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with RST
    client.socket.close()
    client.stand.until(lambda: not client.stand.pump.connections, "its end")


# ---- connections that the router makes ----


@pytest.fixture
def accept(authority: Authority, certificate: Certificate) -> Iterator[Callable[[str], Client]]:
    """A connector's connection, as its server sees it."""
    stand = Stand("layers-dialled")
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(10)
    ends: list[Client] = []

    def once(way: str) -> Client:
        tls = TlsSetup("tls", ca_cert_file=str(authority.certificate), client=True) if way == "tls" else None
        stand.connect(listening.getsockname()[1], tls=tls, verify_hostname=False)
        stand.turn(0.0)
        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate.certificate, certificate.key)
        ends.append(Client(stand, listening.accept()[0], context, serves=True))
        if context:
            ends[-1].secure()
        return ends[-1]

    yield once
    for end in ends:
        end.socket.close()
    stand.end()
    listening.close()


@pytest.mark.parametrize("dialled", ["plain", "tls"])
@pytest.mark.parametrize("eager", [False, True], ids=["waits", "speaks first"])
def test_a_dialled_connection_begins(accept: Callable[[str], Client], dialled: str, eager: bool) -> None:
    """OPEN does not wait for the server's header, which some servers keep back until OPEN has come."""
    server = accept(dialled)
    offer, outcome = sasl(MECHANISMS, symbol("ANONYMOUS")), sasl(OUTCOME, ubyte(0))
    if eager:
        server.write(SASL_HEADER + offer + outcome + AMQP_HEADER + OPENING)
    assert server.take(8) == SASL_HEADER
    if not eager:
        server.write(SASL_HEADER + offer)
    server.frames(INIT)
    if not eager:
        server.write(outcome)
    assert server.take(8) == AMQP_HEADER
    server.frames(OPEN)
    if not eager:
        server.write(AMQP_HEADER + OPENING)
    assert server.stand.hear(ConnectionOpened)[0].container == "peer"
    server.write(CLOSING)
    server.frames(CLOSE)


ADMITTED = SASL_HEADER + sasl(MECHANISMS, symbol("ANONYMOUS")) + sasl(OUTCOME, ubyte(0))


@pytest.mark.parametrize("first", [b"", ADMITTED], ids=["sasl", "amqp"])
@pytest.mark.parametrize("header", WRONG.values(), ids=WRONG)
def test_a_wrong_header_of_a_server_ends_the_connection(
    accept: Callable[[str], Client], first: bytes, header: bytes
) -> None:
    """In the place of its SASL header, and of its AMQP header."""
    if header == SASL_HEADER and not first:
        pytest.skip("it is the right one")
    server = accept("plain")
    server.write(first + header)
    server.over()


@pytest.mark.parametrize("words", PHASES.values(), ids=PHASES)
def test_a_server_ends_at_any_point(accept: Callable[[str], Client], words: bytes) -> None:
    server = accept("plain")
    server.write(ADMITTED + words)
    server.finish()
    server.over()
