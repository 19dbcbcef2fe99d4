"""HTTP listeners with TLS, with and without certificates of clients."""

import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from routerd.exporter.gate import Gate
from routerd.exporter.server import Answer, Door, Server
from routerd.exporter.tls import Secured
from shm.contract.security import TlsSetup
from tests.support.certificates import Authority, Certificate
from tests.support.running import LONG

SECRET = "of the key".replace(" ", "-")
pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="makes certificates with openssl: apt install openssl"
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Certificate:
    return authority.issue("server", "/CN=localhost", password=SECRET)


def setup(authority: Authority, certificate: Certificate, **more: bool | str) -> TlsSetup:
    return TlsSetup(
        "p",
        str(certificate.certificate),
        str(certificate.key),
        f"pass:{SECRET}",
        str(authority.certificate),
        **more,  # type: ignore[arg-type]  # names of fields
    )


class Served:
    """A server that turns in a thread of its own."""

    def __init__(self, tls: Secured) -> None:
        self.server = Server()
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        self.address = listening.getsockname()
        self.server.listen({listening: Door(lambda request: Answer(request.path.encode()), Gate(), tls)})
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self) -> None:
        now = 0.0
        while not self.over.is_set():
            self.server.turn(now, 0.01)
        self.server.close()

    def ask(self, context: ssl.SSLContext | None) -> bytes:
        with socket.create_connection(self.address, timeout=LONG) as sock:
            talking = context.wrap_socket(sock, server_hostname="localhost") if context else sock
            talking.sendall(b"GET /here HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while part := talking.recv(4096):
                answer += part
            return answer


@pytest.fixture
def served(request: pytest.FixtureRequest, authority: Authority, certificate: Certificate) -> Iterator[Served]:
    served = Served(Secured(setup(authority, certificate, **getattr(request, "param", {}))))
    yield served
    served.over.set()
    served.thread.join()


@pytest.fixture
def client(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.certificate))


def test_with_tls_and_without_where_both_are_allowed(served: Served, client: ssl.SSLContext) -> None:
    for context in (client, None, client):
        assert served.ask(context).endswith(b"/here")


@pytest.mark.parametrize("served", [{"required": True}], indirect=True)
def test_without_tls_nobody_is_answered_where_it_is_required(served: Served, client: ssl.SSLContext) -> None:
    try:
        answer = served.ask(None)
    except ConnectionError:
        answer = b""
    assert answer == b""
    assert served.ask(client).endswith(b"/here")
    assert served.server.refused["tls"] == 1


@pytest.mark.parametrize("served", [{"verify": True}], indirect=True)
def test_clients_show_certificates_where_peers_are_authenticated(
    served: Served, client: ssl.SSLContext, authority: Authority
) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        served.ask(client)
    known = authority.issue("client", "/CN=me")
    client.load_cert_chain(known.certificate, known.key)
    assert served.ask(client).endswith(b"/here")


@pytest.mark.parametrize("served", [{"protocols": "TLSv1.3"}], indirect=True)
def test_only_the_protocols_of_the_profile(served: Served, client: ssl.SSLContext) -> None:
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        served.ask(client)
    client.maximum_version = ssl.TLSVersion.TLSv1_3
    assert served.ask(client).endswith(b"/here")


def test_a_replaced_certificate_is_used_at_once(authority: Authority, tmp_path: Path) -> None:
    old, new = (authority.issue(name, f"/CN={name}") for name in ("old", "new"))
    used = Certificate(tmp_path / "c.pem", tmp_path / "k.pem")
    shutil.copy(old.certificate, used.certificate)
    shutil.copy(old.key, used.key)
    secured = Secured(setup(authority, used))
    before = secured._context
    shutil.copy(new.certificate, used.certificate)
    shutil.copy(new.key, used.key)
    here, there = socket.socketpair()
    with secured.accept(here), there:
        assert secured._context is not before
