"""Connectors of a running router: to another one, with TLS and passwords, and to servers that come and go."""

import os
import re
import shutil
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from routerd.cli.client import Client, Place
from tests.support.certificates import Authority
from tests.support.peer import Net
from tests.support.programs import sasl_users
from tests.support.running import LONG, Configuration, RunningRouter, address_of, needs_users, roles, until
from tests.support.servers.acceptor import Acceptor

CONNECTION = ("dir", "role", "container", "host", "properties", "worker")
PASSWORD = "open sesame"  # noqa: S105 - of this test

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="makes certificates with the command openssl: install openssl"
)


class Router(RunningRouter):
    """A router that says how its connectors do; meanwhile the hand-driven servers of ``net`` are served."""

    net: Net

    def connectors(self) -> dict[str, dict[str, Any]]:
        with Client(Place(self.url)) as client:
            return {row["name"]: row for row in client.query("connector")}

    def connections(self) -> list[dict[str, Any]]:
        with Client(Place(self.url)) as client:
            return list(client.query("connection", [*CONNECTION]))

    def kill_child(self, *role: str) -> None:
        roles(self.process.pid)[" ".join(role)].kill()

    def reaches(self, name: str, status: str, text: str = "") -> dict[str, Any]:
        """Wait until a connector is in a state and says something that fits; then all of it."""
        found: dict[str, Any] = {}

        def there() -> bool:
            self.net.turn(0.1)
            found.update(self.connectors().get(name, {}))
            fits = re.search(text, found.get("connectionMsg") or "")
            return found.get("connectionStatus") == status and fits is not None

        try:
            until(there, f"{name}: {status} {text}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {found}\n{self.log}") from error
        return found


def connector(name: str, port: int, text: str = "") -> str:
    return f"connector {{\n name: {name}\n port: {port}\n {text}\n}}\n"


def port_of(url: str) -> int:
    return address_of(url.replace("amqps:", "amqp:"))[1]


@pytest.fixture
def net() -> Iterator[Net]:
    net = Net(("127.0.0.1", 0))
    yield net
    for peer in net.peers:
        peer.socket.close()


@pytest.fixture
def start(tmp_path: Path, net: Net) -> Iterator[Callable[..., Router]]:
    """Starts routers by name; each must not have complained of what is not its own fault."""
    routers: list[Router] = []

    def begin(name: str, sections: str = "", router: str = "", listener: str = "") -> Router:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        place = listener or "host: 127.0.0.1\n port: 0"
        routers.append(Router(folder, Configuration(f"mode: interior\n workers: 2\n {router}", place, sections)))
        routers[-1].net = net
        return routers[-1]

    yield begin
    for router in routers:
        assert PASSWORD not in router.log + router.output
        assert "Traceback" not in router.log
        router.kill()


@pytest.fixture
def acceptor(net: Net) -> Iterator[Acceptor]:
    acceptor = Acceptor(net)
    yield acceptor
    acceptor.close()


def test_another_router_is_connected_to_and_both_show_it(start: Callable[..., Router]) -> None:
    """The side that dials shows dir out, the other one in; both show the role and the other's container."""
    far = start("far", "listener {\n host: 127.0.0.1\n port: 0\n role: inter-router\n cost: 4\n}\n")
    near = start("near", connector("there", port_of(far.urls[1]), "host: localhost\n role: inter-router"))
    state = near.reaches("there", "SUCCESS", "Connection Opened: dir=out")
    assert state["failoverUrls"] == f"amqp://localhost:{port_of(far.urls[1])}"
    (out,) = [row for row in near.connections() if row["dir"] == "out"]
    assert (out["role"], out["container"], out["host"]) == ("inter-router", far.id, f"localhost:{port_of(far.urls[1])}")
    assert out["properties"]["qd.inter-router-cost"] == 4
    until(lambda: any(row["role"] == "inter-router" for row in far.connections()), "the other side")
    (back,) = [row for row in far.connections() if row["role"] == "inter-router"]
    assert (back["dir"], back["container"]) == ("in", near.id)


@needs_openssl
def test_tls_is_spoken_only_with_whom_the_certificate_names(start: Callable[..., Router], tmp_path: Path) -> None:
    """A name that is not in the certificate is refused, unless names are not verified; so is a stranger's,
    and one that is not valid any more. An address stands there as an address or as a name."""
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    server = authority.issue("server", "/CN=localhost", names="DNS:localhost,IP:127.0.0.1,IP:::1")
    expired = authority.issue("expired", "/CN=localhost", expired=True)
    client = authority.issue("client", "/CN=near")
    named = authority.issue("named", "/CN=far", names="DNS:127.0.0.1")
    far = start(
        "far",
        f"sslProfile {{\n name: s\n certFile: {server.certificate}\n privateKeyFile: {server.key}\n"
        f" caCertFile: {authority.certificate}\n}}\n"
        f"sslProfile {{\n name: e\n certFile: {expired.certificate}\n privateKeyFile: {expired.key}\n}}\n"
        "listener {\n host: 127.0.0.1\n port: 0\n sslProfile: e\n requireSsl: yes\n}\n"
        f"sslProfile {{\n name: n\n certFile: {named.certificate}\n privateKeyFile: {named.key}\n}}\n"
        "listener {\n host: 127.0.0.1\n port: 0\n sslProfile: n\n requireSsl: yes\n}\n"
        f"sslProfile {{\n name: o\n certFile: {named.certificate}\n privateKeyFile: {named.key}\n"
        " protocols: TLSv1 TLSv1.1\n ciphers: ALL:@SECLEVEL=0\n}\n"
        "listener {\n host: 127.0.0.1\n port: 0\n sslProfile: o\n requireSsl: yes\n}\n"
        "listener {\n host: ::1\n port: 0\n sslProfile: s\n requireSsl: yes\n}\n"
        "listener {\n host: 127.0.0.2\n port: 0\n sslProfile: s\n requireSsl: yes\n}\n",
        listener="host: 127.0.0.1\n port: 0\n sslProfile: s\n requireSsl: yes\n saslMechanisms: EXTERNAL\n"
        " authenticatePeer: yes",
    )
    profiles = (
        f"sslProfile {{\n name: c\n caCertFile: {authority.certificate}\n certFile: {client.certificate}\n"
        f" privateKeyFile: {client.key}\n}}\n"
        f"sslProfile {{\n name: w\n caCertFile: {stranger.certificate}\n}}\n"
        f"sslProfile {{\n name: a\n caCertFile: {authority.certificate}\n protocols: TLSv1.1\n"
        " ciphers: ALL:@SECLEVEL=0\n}\n"
    )
    port, late, as_name, old, port6, port2 = map(int, re.findall(r"amqps://\S+:(\d+)", far.output))
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    asking.load_cert_chain(server.certificate, server.key)
    names: list[str | None] = []
    asking.sni_callback = lambda _, name, __: names.append(name)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(LONG)
    near = start(
        "near",
        profiles
        + connector("asking", listening.getsockname()[1], "host: localhost\n protocolFamily: IPv4\n sslProfile: c")
        + connector("right", port, "host: localhost\n protocolFamily: IPv4\n sslProfile: c")
        + connector("addressed", port, "host: 127.0.0.1\n sslProfile: c")
        + connector("addressed by IPv6", port6, "host: ::1\n sslProfile: c")
        + connector("another", port2, "host: 127.0.0.2\n sslProfile: c")
        + connector("pretended", port, "host: 127.0.0.1\n sslProfile: w")
        + connector("wrong", as_name, "host: localhost\n protocolFamily: IPv4\n sslProfile: c")
        + connector("named", as_name, "host: 127.0.0.1\n sslProfile: c")
        + connector("unverified", port, "host: 127.0.0.1\n sslProfile: c\n verifyHostname: no")
        + connector("stranger", port, "host: localhost\n protocolFamily: IPv4\n sslProfile: w")
        + connector("expired", late, "host: localhost\n protocolFamily: IPv4\n sslProfile: c")
        + connector("old", old, "host: 127.0.0.1\n sslProfile: c")
        + connector("old by name", old, "host: 127.0.0.1\n sslProfile: a"),
    )
    with listening, asking.wrap_socket(listening.accept()[0], server_side=True):
        assert names == ["localhost"]  # SNI
    near.reaches("right", "SUCCESS", "auth=EXTERNAL.*encrypted=TLS")
    near.reaches("unverified", "SUCCESS")
    near.reaches("named", "SUCCESS")
    near.reaches("old by name", "SUCCESS", "encrypted=TLS")
    near.reaches("old", "CONNECTING", "failed: ")
    near.reaches("addressed", "SUCCESS")
    near.reaches("addressed by IPv6", "SUCCESS")
    near.reaches("wrong", "CONNECTING", "failed: .*certificate .*have localhost as a name")
    near.reaches("another", "CONNECTING", "failed: .*certificate .*have 127.0.0.2 as an address")
    near.reaches("pretended", "CONNECTING", "failed: .*certificate .*an authority that sslProfile w trusts")
    date = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC: renew it there"
    for name, why in (("stranger", "trusts"), ("expired", f"; the peer's certificate expired on {date}")):
        near.reaches(name, "CONNECTING", f"failed: .*certificate .*{why}")
        assert re.search(rf"connector {name}: Connection to localhost:\d+ failed: .*certificate.*{why}", near.log)
    near.reaches("right", "SUCCESS")


@needs_users
def test_a_password_opens_and_a_wrong_one_does_not(
    start: Callable[..., Router], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the configuration, the environment or a file; a missing one is told without an attempt."""
    monkeypatch.setenv("ROUTERD_TEST_CONNECT", PASSWORD)
    (tmp_path / "secret").write_text(f"{PASSWORD}\n")
    (tmp_path / "far").mkdir()
    sasl_users.make(tmp_path / "far", alice=PASSWORD)
    far = start(
        "far",
        router=f"saslConfigDir: {tmp_path / 'far'}\n saslConfigName: routerd",
        listener="host: 127.0.0.1\n port: 0\n authenticatePeer: yes\n saslMechanisms: PLAIN SCRAM-SHA-256",
    )
    port = port_of(far.url)
    login = "saslUsername: alice\n saslMechanisms: PLAIN\n saslPassword: "
    near = start(
        "near",
        connector("environment", port, login + "env:ROUTERD_TEST_CONNECT")
        + connector("file", port, f"{login}file:{tmp_path / 'secret'}".replace("PLAIN", "SCRAM-SHA-256"))
        + connector("wrong", port, login + "pass:wrong")
        + "log {\n module: DEFAULT\n enable: trace+\n}\n"
        + connector("missing", port, login + "env:ROUTERD_TEST_NOT_THERE"),
    )
    near.reaches("environment", "SUCCESS", "auth=PLAIN user=alice")
    near.reaches("file", "SUCCESS", "auth=SCRAM-SHA-256")
    near.reaches("wrong", "CONNECTING", "failed: .*[Aa]uthentication failed")
    near.reaches("missing", "CONNECTING", "failed: there is no environment variable ROUTERD_TEST_NOT_THERE")


def test_a_server_that_goes_is_dialled_until_it_is_back(
    start: Callable[..., Router], net: Net, acceptor: Acceptor
) -> None:
    """An independent server: it sees who we are, goes, and is connected to again."""
    near = start("near", connector("broker", acceptor.port, "role: route-container"))
    peer = acceptor.accept()
    assert peer.connection.remote_container == near.id
    near.reaches("broker", "SUCCESS", "container_id=broker")
    acceptor.close()
    peer.drop()
    near.reaches("broker", "CONNECTING", f"Connection to 127.0.0.1:{acceptor.port} failed")
    acceptor.listen()
    acceptor.accept(container="again")
    near.reaches("broker", "SUCCESS", "container_id=again")


def test_a_failover_list_is_followed(start: Callable[..., Router], net: Net, acceptor: Acceptor) -> None:
    """That of the peer's OPEN, in its order, after the configured host."""
    other = Acceptor(net)
    near = start("near", connector("broker", acceptor.port))
    place = {"network-host": "127.0.0.1", "port": str(other.port), "scheme": "amqp"}
    peer = acceptor.accept({"failover-server-list": [place]})
    urls = [f"amqp://127.0.0.1:{port}" for port in (acceptor.port, other.port)]
    assert near.reaches("broker", "SUCCESS")["failoverUrls"] == ", ".join(urls)
    acceptor.close()
    peer.drop()
    other.accept(container="second")
    assert near.reaches("broker", "SUCCESS", "container_id=second")["failoverUrls"] == ", ".join(urls[::-1])
    acceptor.listen()
    other.close()


def test_a_connector_survives_its_worker_and_the_core(
    start: Callable[..., Router], net: Net, acceptor: Acceptor
) -> None:
    """The core's death leaves the connection alone; a worker's successor connects again."""
    near = start("near", connector("broker", acceptor.port))
    peer = acceptor.accept()
    near.reaches("broker", "SUCCESS")
    near.kill_child("core")
    until(lambda: near.log.count("core serves") == 2, "the next core")
    near.reaches("broker", "SUCCESS", "container_id=broker")
    assert not peer.closed
    (row,) = [row for row in near.connections() if row["dir"] == "out"]
    peer.expect_error = True
    near.kill_child("worker", str(row["worker"]))
    acceptor.accept(container="successor")
    near.reaches("broker", "SUCCESS", "container_id=successor")


def test_a_reload_adds_and_removes_connectors(start: Callable[..., Router], net: Net, acceptor: Acceptor) -> None:
    """What did not change is not touched; a removed one's connection is closed."""
    near = start("near", connector("first", acceptor.port))
    first = acceptor.accept(container="one")
    near.reaches("first", "SUCCESS")

    def reload(sections: str) -> None:
        text = near.config.read_text()
        near.config.write_text(text[: text.index("connector {")] + sections)
        os.kill(near.process.pid, signal.SIGHUP)

    reload(connector("first", acceptor.port) + connector("second", acceptor.port))
    acceptor.accept(container="two")
    near.reaches("second", "SUCCESS", "container_id=two")
    assert not first.closed
    reload(connector("second", acceptor.port))
    net.until(lambda: first.connection.remote_condition is not None, "CLOSE")
    assert first.connection.remote_condition.name == "amqp:connection:forced"
    until(lambda: list(near.connectors()) == ["second"], "one connector")
    near.reaches("second", "SUCCESS", "container_id=two")
