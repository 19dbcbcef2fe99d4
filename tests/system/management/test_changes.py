"""A running router changed by management: what was made takes effect, and outlives the core and a reload."""

import os
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from socket import create_connection, socket

import pytest
from proton import Message, ProtonException
from proton.reactor import AtMostOnce
from proton.utils import BlockingConnection, LinkDetached

from routerd.cli.client import Client, Place, RefusedError
from tests.support.certificates import Authority
from tests.support.running import LONG, Configuration, RunningRouter, free_port, until

HIDDEN = "kept-to-itself"


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """One worker is enough; certificates lie where tests have their files."""
    return Configuration(router=f"workers: 1\n managementDirs: {tempfile.gettempdir()}")


@pytest.fixture
def client(router: RunningRouter) -> Iterator[Client]:
    """A client of the router's agent."""
    with Client(Place(router.url)) as client:
        yield client


def refuses(port: int) -> bool:
    try:
        create_connection(("127.0.0.1", port), timeout=LONG).close()
    except ConnectionRefusedError:
        return True
    return False


def listener(port: int, **more: str) -> dict[str, str]:
    return {"host": "127.0.0.1", "port": str(port), **more}


def test_a_listener_comes_and_goes(client: Client) -> None:
    """Clients are served there at once; when it is deleted, nobody new is, and who is connected stays."""
    port = free_port()
    made = client.call("CREATE", listener(port), type="listener", name="extra")
    assert (made["port"], made["role"]) == (str(port), "normal")
    connection = BlockingConnection(f"amqp://127.0.0.1:{port}", timeout=LONG)
    receiver = connection.create_receiver("there")
    client.call("DELETE", type="listener", name="extra")
    until(lambda: refuses(port), "the end of the listener")
    connection.create_sender("there", options=AtMostOnce()).send(Message(body="x"))
    assert receiver.receive(timeout=LONG).body == "x"
    connection.close()
    assert "extra" not in {row["name"] for row in client.query("listener")}


def test_a_listener_that_cannot_be(router: RunningRouter, client: Client) -> None:
    """Its port is in use by somebody else, or its attributes make no sense: nothing changes."""
    with socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RefusedError, match="the port is in use") as refused:
            client.call("CREATE", listener(taken.getsockname()[1]), type="listener")
        assert refused.value.status == 400
    with pytest.raises(RefusedError, match=r"port: .* is not a port.*; listener cost: 0 is out of range"):
        client.call("CREATE", {"port": "x", "cost": 0}, type="listener")
    assert len(list(client.query("listener"))) == 1
    assert "Management: CREATE listener refused" in router.log


def refused(router: RunningRouter, address: str) -> bool:
    """Whether nobody may receive from an address."""
    connection = BlockingConnection(router.url, timeout=LONG)
    try:
        connection.create_receiver(address)
    except LinkDetached:
        return True
    finally:
        connection.close()
    return False


def test_what_was_made_outlives_the_core_and_a_reload(tmp_path: Path, configuration: Configuration) -> None:
    """The next core is told of it; the file read again leaves it."""
    router = RunningRouter(tmp_path, configuration)
    try:
        with Client(Place(router.url)) as client:
            gone = {"prefix": "gone", "distribution": "unavailable"}
            client.call("CREATE", gone, type="router.config.address")
            (core,) = [row["pid"] for row in client.query("worker") if row["role"] == "core"]
        os.kill(core, signal.SIGKILL)
        until(lambda: "core serves" in router.log.partition("core died")[2], "the next core")
        assert refused(router, "gone.away")
        os.kill(router.process.pid, signal.SIGHUP)
        until(lambda: "Reload: nothing has changed" in router.log, "the reload")
        assert refused(router, "gone.away")
        with Client(Place(router.url)) as client:
            (row,) = client.query("address")
            assert (row["prefix"], row["distribution"]) == ("gone", "unavailable")
            client.call("DELETE", type="router.config.address", identity=row["identity"])
        assert not refused(router, "gone.away")
    finally:
        router.kill()


def presented(port: int, authority: Path) -> bytes | None:
    context = ssl.create_default_context(cafile=str(authority))
    with (
        create_connection(("127.0.0.1", port), timeout=LONG) as sock,
        context.wrap_socket(sock, server_hostname="localhost") as secure,
    ):
        return secure.getpeercert(binary_form=True)


def der(certificate: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate.read_text())


def test_tls_is_set_up_and_renewed(router: RunningRouter, client: Client, tmp_path: Path) -> None:
    """An sslProfile and a listener with it; an UPDATE gives new connections the other certificate."""
    authority = Authority(tmp_path)
    first = authority.issue("first", "/CN=localhost", password=HIDDEN)
    second = authority.issue("second", "/CN=localhost")
    attributes = {"certFile": str(first.certificate), "privateKeyFile": str(first.key)}
    with pytest.raises(RefusedError, match="sslProfile"):
        client.call("CREATE", attributes | {"password": f"not-{HIDDEN}"}, type="sslProfile", name="s")
    made = client.call("CREATE", attributes | {"password": f"pass:{HIDDEN}"}, type="sslProfile", name="s")
    assert "password" not in made
    port = free_port()
    client.call("CREATE", listener(port, sslProfile="s", requireSsl="yes"), type="listener", name="tls")
    assert presented(port, authority.certificate) == der(first.certificate)
    with Client(Place(f"amqps://localhost:{port}", trustfile=str(authority.certificate))) as secure:
        (mine,) = [one for one in secure.query("connection") if one["isEncrypted"]]
        assert (mine["ssl"], mine["sslProto"].startswith("TLS"), mine["sslSsf"] >= 128) == (True, True, True)
        assert mine["sslCipher"]
    changes = {"certFile": str(second.certificate), "privateKeyFile": str(second.key), "password": None}
    client.call("UPDATE", changes, type="sslProfile", name="s")
    until(lambda: presented(port, authority.certificate) == der(second.certificate), "the other certificate")
    with pytest.raises(RefusedError, match="it is needed by listener "):
        client.call("DELETE", type="sslProfile", name="s")
    client.call("DELETE", type="listener", name="tls")
    client.call("DELETE", type="sslProfile", name="s")
    assert HIDDEN not in router.log + str(list(client.query("sslProfile")))


def test_policy_is_changed(router: RunningRouter, client: Client) -> None:
    """Vhosts are made, changed and deleted; a reload brings back none of them."""
    groups = {"$default": {"users": "*", "remoteHosts": "*", "sources": "a"}}
    with pytest.raises(RefusedError, match="hostname: is missing"):
        client.call("CREATE", {"groups": groups}, type="vhost")
    made = client.call("CREATE", {"hostname": "h", "groups": groups}, type="vhost")
    group = made["groups"]["$default"]
    assert (group["sources"], group["maxSenders"], "line" in group) == ("a", 2**31 - 1, False)
    row = client.call("UPDATE", {"maxConnections": 5}, type="vhost", identity=made["identity"])
    assert row["maxConnections"] == 5
    assert [one["hostname"] for one in client.query("vhostStats")] == ["h"]
    client.call("DELETE", type="vhost", identity=made["identity"])
    assert list(client.query("vhost")) == list(client.query("vhostStats")) == []


def let_in(router: RunningRouter) -> bool:
    """Whether a client may connect."""
    try:
        connection = BlockingConnection(router.url, timeout=LONG)
        connection.create_sender("a.place")  # one too many is closed by the core's answer
        connection.close()
    except ProtonException:
        return False
    return True


def test_limits_of_the_router_are_changed(router: RunningRouter, client: Client) -> None:
    """The policy need be in no file, and need not be named; who is connected stays."""
    row = client.call("UPDATE", {"maxConnections": 1}, type="policy")
    assert (row["maxConnections"], row["type"]) == (1, "org.apache.qpid.dispatch.policy")
    until(lambda: not let_in(router), "the limit")
    with pytest.raises(RefusedError, match="cannot be changed by UPDATE"):
        client.call("UPDATE", {"policyDir": tempfile.gettempdir()}, type="policy")
    row = client.call("UPDATE", {"maxConnections": None}, type="policy")
    assert row["maxConnections"] == 65535
    until(lambda: let_in(router), "its end")


def test_limits_of_an_address(router: RunningRouter, client: Client) -> None:
    """A sender has the credit that the address gives, again and again; one receiver too many is told why."""
    limits = {"prefix": "few", "maxReceivers": 1, "linkCapacity": 3}
    made = client.call("CREATE", limits, type="router.config.address", name="few")
    assert limits.items() <= made.items()
    connection = BlockingConnection(router.url, timeout=LONG)
    receiver = connection.create_receiver("few.x", name="first")
    link = connection.create_sender("few.x").link
    with pytest.raises(LinkDetached, match="maxReceivers of its address entity: 1"):
        connection.create_receiver("few.x", name="second")
    for number in range(5):
        connection.wait(lambda: link.credit == 3, timeout=LONG, msg="the address's credit")
        link.send(Message(number))
        assert receiver.receive(timeout=LONG).body == number
        receiver.accept()
    connection.close()
    client.call("DELETE", type="router.config.address", name="few")


def test_a_log_level_is_changed(router: RunningRouter, client: Client) -> None:
    """In every process, at once."""
    row = client.call("UPDATE", {"enable": "debug+"}, type="log", identity="log/ROUTER_CORE")
    assert row["enable"] == "debug+"
    BlockingConnection(router.url, timeout=LONG).close()
    until(lambda: "ROUTER_CORE (debug)" in router.log, "a line of the level asked for")
    with pytest.raises(RefusedError, match="enable"):
        client.call("UPDATE", {"enable": "loud"}, type="log", identity="log/ROUTER_CORE")


def test_a_check_shows_no_secret(tmp_path: Path) -> None:
    """Not even one that is wrong."""
    config = tmp_path / "check.conf"
    config.write_text("sslProfile {\n name: s\n password: top\x07hidden\n}\n")
    command = [Path(sys.executable).with_name("routerd"), "check", config]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONG)
    assert done.returncode == 1
    assert "sslProfile password: its value does not fit" in done.stderr
    assert "hidden" not in done.stdout + done.stderr
