"""A TLS handshake that never ends holds a place no longer than a request in clear text that never ends."""

import shutil
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from routerd.exporter import server as http
from routerd.exporter.tls import Secured
from shm.contract.security import TlsSetup
from tests.support.beds.http import Bed
from tests.support.certificates import Authority

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="makes certificates with openssl: apt install openssl"
)
ASKING = b"GET /late HTTP/1.1\r\nHost: router\r\n\r\n"
EXTRA = 20  # clients that come while all places are taken


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Secured:
    made = Authority(Path(tmp_path_factory.mktemp("authority"))).issue("server", "/CN=router")
    return Secured(TlsSetup("p", str(made.certificate), str(made.key)))


@pytest.fixture
def bed(tls: Secured) -> Iterator[Bed]:
    bed = Bed(tls=tls)
    with closing(bed.server):
        yield bed
    for client in bed.clients:
        client.close()


def client_hello() -> bytes:
    context, incoming, outgoing = ssl.create_default_context(), ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="router").do_handshake()
    return outgoing.read()


BEGINNINGS = {"an octet": 1, "a part": 50, "all of the first message": None}


@pytest.fixture(params=BEGINNINGS.values(), ids=BEGINNINGS.keys())
def said(request: pytest.FixtureRequest) -> bytes:
    """What a client says before it falls silent."""
    return client_hello()[: request.param]


def test_half_handshakes_make_room_at_once(bed: Bed, said: bytes) -> None:
    """Each client that comes takes the place of the oldest one."""
    for _ in range(http.MOST + EXTRA):
        bed.client(said)
        bed.turn(2)
    assert len(bed.server) == http.MOST
    assert bed.server.refused["crowded"] == EXTRA
    assert bed.ask(ASKING).endswith(b"/late {} ")


def test_half_handshakes_end_with_the_time_of_a_request(bed: Bed, said: bytes) -> None:
    """An octet now and then does not prolong it."""
    rest = client_hello()[len(said) :]
    client = bed.client(said)
    for second in range(int(http.HEAD_SECONDS)):
        bed.turn(4, 1.0)
        assert len(bed.server) == 1, f"{second} s"
        client.sendall(rest[second : second + 1])
    bed.turn()
    assert len(bed.server) == 0
    assert bed.server.refused["slow"] == 1


def test_half_handshakes_cost_a_turn_no_more_than_others(bed: Bed, said: bytes) -> None:
    """A turn begins and goes on with as many handshakes as requests."""
    for _ in range(http.ACCEPTED_MOST + EXTRA):
        bed.client(said)
    bed.turn(1)
    assert len(bed.server) == http.ACCEPTED_MOST
    bed.turn(1)
    assert len(bed.server) == http.ACCEPTED_MOST + EXTRA
