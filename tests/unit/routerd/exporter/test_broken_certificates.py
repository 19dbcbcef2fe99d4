"""HTTP listeners whose certificates cannot be used: they wait for better ones, and cost the others nothing."""

import os
import shutil
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from routerd.exporter.main import Doors
from routerd.exporter.server import Server
from routerd.exporter.site import Pages
from routerd.exporter.tls import Secured
from shm.contract.control import ListenerSetup
from shm.contract.security import TlsSetup
from tests.support.beds.http import Bed
from tests.support.certificates import Authority, Certificate

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="makes certificates with openssl: apt install openssl"
)
ASKING = b"GET /late HTTP/1.1\r\nHost: router\r\n\r\n"
HANDSHAKE = b"\x16"  # the type of a TLS record


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Certificate]:
    """Two certificates, neither of which fits the other's key."""
    authority = Authority(Path(tmp_path_factory.mktemp("authority")))
    return [authority.issue(name, f"/CN={name}") for name in ("one", "two")]


@pytest.fixture
def used(tmp_path: Path, made: list[Certificate]) -> Certificate:
    """The files of a profile, which fit together."""
    used = Certificate(tmp_path / "c.pem", tmp_path / "k.pem")
    shutil.copy(made[0].certificate, used.certificate)
    shutil.copy(made[0].key, used.key)
    return used


def tls(used: Certificate, profile: str = "p") -> TlsSetup:
    return TlsSetup(profile, str(used.certificate), str(used.key))


def replace(file: Path, by: Path) -> None:
    """A new file in the place of another, as whoever renews certificates should put it there."""
    shutil.copy(by, file.with_suffix(".new"))
    file.with_suffix(".new").rename(file)


def client_hello() -> bytes:
    context, outgoing = ssl.create_default_context(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="router").do_handshake()
    return outgoing.read()


def test_clients_with_tls_are_refused_until_the_files_can_be_used(
    used: Certificate, made: list[Certificate], caplog: pytest.LogCaptureFixture
) -> None:
    """Those without are served where the listener allows it; one line tells what is wrong."""
    replace(used.key, by=made[1].key)
    bed = Bed(tls=Secured(tls(used)))
    with closing(bed.server):
        for refused in (1, 2):
            bed.client(client_hello())
            bed.turn()
            assert (bed.server.refused["tls"], len(bed.server)) == (refused, 0)
        assert bed.ask(ASKING).endswith(b"/late {} ")
        assert bed.server.by_listener() == {"": None}
        assert caplog.text.count("clients with TLS are refused until that is mended") == 1
        assert "k.pem is not the key of the certificate" in caplog.text
        replace(used.certificate, by=made[1].certificate)
        assert bed.server.by_listener() == {"": 1}  # who was answered
        client = bed.client(client_hello())
        bed.turn(10)
        assert client.recv(1) == HANDSHAKE
    for client in bed.clients:
        client.close()


@pytest.fixture
def served() -> Iterator[Server]:
    with closing(Server()) as server:
        yield server


def setups(*listeners: tuple[str, TlsSetup | None]) -> tuple[list[ListenerSetup], list[int]]:
    """HTTP listeners and their sockets."""
    found = [ListenerSetup(name, [socket.create_server(("127.0.0.1", 0)).detach()], tls=tls) for name, tls in listeners]
    return found, [fd for one in found for fd in one.fds]


def test_files_that_break_change_nothing_when_another_listener_comes(
    served: Server, used: Certificate, made: list[Certificate], tmp_path: Path
) -> None:
    """The listener goes on with what it has; a new one, whose files were never of use, leaves the others alone."""
    doors = Doors(served, Pages(None, None, Counter(), Counter()))  # type: ignore[arg-type]  # nobody asks for a page
    doors.change(*setups(("https", tls(used))))
    replace(used.key, by=made[1].key)
    absent = Certificate(tmp_path / "none.pem", tmp_path / "none-key.pem")
    doors.change(*setups(("https", tls(used)), ("http", None), ("broken", tls(absent, "q"))))
    assert served.by_listener() == {"https": 0, "http": 0, "broken": None}
    os.unlink(used.certificate)
    doors.change(*setups(("https", tls(used))))
    assert served.by_listener() == {"https": 0}
