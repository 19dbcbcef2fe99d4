"""TLS on listeners: who gets in, who does not, what the log says, and certificates that change."""

import hashlib
import os
import re
import socket
import ssl
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import msgspec
import psutil
import pytest

from routerd.cli.client import Client, Place
from routerd.cli.connection_options import ClientError, connect
from shm.contract.peer_address import out_of_time
from tests.support.certificates import Authority, Certificate
from tests.support.clients.secured import Credentials, attempt, urls_of
from tests.support.running import LONG, Configuration, RunningRouter, Since, address_of, until

PASSWORD = "top secret"  # noqa: S105 - of this test
SUBJECT = "/C=DE/ST=Bayern/L=Muenchen/O=Here/OU=Dev/CN=alice"


class Files:
    """All certificates of this module."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.stranger = Authority(folder, "stranger")
        self.server = self.authority.issue("server", "/CN=localhost", password=PASSWORD)
        self.client = self.authority.issue("client", SUBJECT)
        self.expired = self.authority.issue("expired", "/CN=late", expired=True)
        self.foreign = self.stranger.issue("foreign", "/CN=alice")


def profile(files: Files, name: str = "p", protocols: str = "") -> str:
    said = f"protocols: {protocols}" if protocols else ""
    return f"""sslProfile {{
    name: {name}
    certFile: {files.server.certificate}
    privateKeyFile: {files.server.key}
    password: env:ROUTERD_TEST_PASSWORD
    caCertFile: {files.authority.certificate}
    uidFormat: on
    {said}
    ciphers: {"ALL:@SECLEVEL=0" if name == "old" else "ECDHE+AESGCM"}
}}
"""


def listener(text: str, name: str = "p") -> str:
    return f"listener {{\n host: 127.0.0.1\n port: 0\n sslProfile: {name}\n {text}\n}}\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def router(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRouter]:
    """Listeners: TLS only; client certificates only; TLS or not; TLS 1.3; old TLS, AMQP and HTTP; HTTP."""
    external = "requireSsl: yes\n authenticatePeer: yes\n saslMechanisms: EXTERNAL"
    sections = profile(files) + listener(external) + listener("")
    sections += profile(files, "new", "TLSv1.3") + listener("requireSsl: yes", "new")
    sections += profile(files, "old", "TLSv1 TLSv1.1") + listener("", "old") + listener("http: yes", "old")
    sections += listener("http: yes")
    first = "host: 127.0.0.1\n port: 0\n sslProfile: p\n requireSsl: yes"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ROUTERD_TEST_PASSWORD", PASSWORD)
        configuration = Configuration("workers: 1", first, sections)
        router = RunningRouter(tmp_path_factory.mktemp("router"), configuration)
        yield router
        router.stop()


@pytest.fixture(autouse=True)
def since(router: RunningRouter) -> Iterator[Since]:
    """What the test has caused."""
    yield Since(router)
    assert PASSWORD not in router.log + router.output


def client(files: Files, certificate: Certificate | None = None, **more: str) -> Credentials:
    trusted = str(files.authority.certificate)
    if certificate is None:
        return Credentials(trusted, **more)
    return Credentials(trusted, str(certificate.certificate), str(certificate.key), **more)


def test_tls_where_it_is_wanted_and_plain_where_it_may_be(files: Files, router: RunningRouter) -> None:
    """The key's password comes from the environment; a listener without requireSsl takes both kinds."""
    assert attempt(urls_of(router.output)[0], client(files)).opened
    assert attempt(urls_of(router.output)[2], client(files)).opened
    assert attempt(urls_of(router.output)[2]).opened
    place = address_of(urls_of(router.output)[0].replace("amqps", "amqp"))
    assert cipher(files, place, "ECDHE-ECDSA-AES128-GCM-SHA256") == "ECDHE-ECDSA-AES128-GCM-SHA256"
    assert cipher(files, place, "ECDHE-ECDSA-CHACHA20-POLY1305") is None  # not among those of the profile


def test_no_child_has_the_password_in_its_environment(router: RunningRouter) -> None:
    """Not those that use it either: they are told it. /proc shows for ever what a process began with."""

    def roles() -> list[str]:
        return [child.cmdline()[4] for child in psutil.Process(router.process.pid).children()]

    until(lambda: {"core", "worker", "exporter", "spare"} <= {*roles()}, "a process of each kind")
    for child in psutil.Process(router.process.pid).children():
        found = Path(f"/proc/{child.pid}/environ").read_bytes()
        assert b"PATH=" in found, child.cmdline()
        assert b"ROUTERD_TEST_PASSWORD" not in found, child.cmdline()
        assert PASSWORD.encode() not in found, child.cmdline()


def test_only_the_protocols_of_the_profile(files: Files, router: RunningRouter, since: Since) -> None:
    """TLS 1.3 where nothing else is allowed; who is older is refused, counted and told of."""
    url = urls_of(router.output)[3]
    assert attempt(url, client(files)).opened
    assert cipher(files, address_of(url.replace("amqps", "amqp")), "ECDHE-ECDSA-AES128-GCM-SHA256") is None
    since.counted("refused_tls", 1)
    since.says(r"connection of 127\.0\.0\.1:\d+ refused: the TLS handshake failed")


def cipher(files: Files, place: tuple[str, int], ciphers: str) -> str | None:
    """The cipher that a client of TLS 1.2 comes to; None: it is refused."""
    context = ssl.create_default_context(cafile=str(files.authority.certificate))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(ciphers)
    try:
        with (
            socket.create_connection(place, LONG) as sock,
            context.wrap_socket(sock, server_hostname="localhost") as wrapped,
        ):
            found = wrapped.cipher()
            return found[0] if found else None
    except ssl.SSLError:
        return None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions_are_spoken_only_where_a_profile_names_them(
    files: Files, router: RunningRouter, version: ssl.TLSVersion
) -> None:
    """TLS 1.0 and 1.1 are refused by default, for AMQP with and without client certificates and for HTTP."""
    ports = [int(port) for port in re.findall(r"(?:amqps|https)://\S+:(\d+)", router.output)]
    spoken = [old_version(files, ("127.0.0.1", port), version) for port in ports]
    assert spoken == [None, None, None, None, version.name, version.name, None]


def old_version(files: Files, place: tuple[str, int], version: ssl.TLSVersion) -> str | None:
    """The version that a client of an old one speaks; None: it is refused."""
    context = ssl.create_default_context(cafile=str(files.authority.certificate))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the versions in question
        context.minimum_version = context.maximum_version = version
    context.set_ciphers("ALL:@SECLEVEL=0")
    try:
        with (
            socket.create_connection(place, LONG) as sock,
            context.wrap_socket(sock, server_hostname="localhost") as wrapped,
        ):
            return (wrapped.version() or "").replace(".", "_")
    except (ssl.SSLError, ConnectionError):
        return None


def test_a_certificate_makes_a_user(files: Files, router: RunningRouter) -> None:
    """EXTERNAL takes who has a certificate of the authority; uidFormat names the user by it."""
    url = urls_of(router.output)[1].replace("127.0.0.1", "localhost")
    it = files.client
    place = Place(
        url,
        trustfile=str(files.authority.certificate),
        certificate=str(it.certificate),
        key=str(it.key),
        mechanisms="EXTERNAL",
        timeout=LONG,
    )
    with Client(place) as asking:
        (row,) = asking.query("connection")
    assert (row["user"], row["sasl"], row["isEncrypted"]) == ("Here;alice", "EXTERNAL", True)


def test_what_the_tools_say_of_certificates(files: Files, router: RunningRouter) -> None:
    """With the authority they are in; with another one they say which is wanted."""
    url = urls_of(router.output)[0].replace("127.0.0.1", "localhost")
    connect(Place(url, timeout=LONG, trustfile=str(files.authority.certificate))).close()
    with pytest.raises(ClientError, match="give the authority of the router's certificate with --ssl-trustfile"):
        connect(Place(url, timeout=LONG, trustfile=str(files.stranger.certificate)))


def refusal_of(host: str, shown: Certificate, trusted: Authority) -> tuple[str, bool]:
    """What a command says of a server that shows a certificate and then closes, and whether it spoke AMQP with it.

    The command may connect again to learn why it refuses the certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown.certificate, shown.key)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    talked: list[bytes] = []
    with socket.create_server((host, 0), family=family) as server:

        def serve() -> None:
            while True:
                try:
                    accepted = server.accept()[0]
                except OSError:  # it is shut down
                    return
                with suppress(OSError), context.wrap_socket(accepted, server_side=True) as client:
                    talked.append(client.recv(8))

        serving = Thread(target=serve)
        serving.start()
        url = f"amqps://{f'[{host}]' if ':' in host else host}:{server.getsockname()[1]}"
        with pytest.raises(ClientError, match="cannot reach the router") as refused:
            connect(Place(url, timeout=LONG, trustfile=str(trusted.certificate)))
        server.shutdown(socket.SHUT_RDWR)
        serving.join(LONG)
    return str(refused.value), any(talked)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize(
    ("subject", "names", "fits"),
    [
        ("addressed", "IP:127.0.0.1,IP:::1", True),
        ("addressed", "DNS:127.0.0.1,DNS:::1", True),
        ("{host}", "DNS:localhost", True),
        ("{host}", "IP:127.0.0.2,IP:::2", True),
        ("addressed", "DNS:localhost,IP:127.0.0.2,IP:::2", False),
        ("addressed", "DNS:127.0.0.2,DNS:::2", False),
    ],
)
def test_the_tools_verify_an_address(tmp_path: Path, host: str, subject: str, names: str, fits: bool) -> None:
    """The certificate has it as an address (RFC 5280 4.2.1.6), as a name, or as its common name; no other will do.

    A peer whose certificate is refused gets nothing of AMQP, and so of no login.
    """
    authority = Authority(tmp_path, "other")
    made = authority.issue("addressed", f"/CN={subject.format(host=host)}", names=names)
    said, talked = refusal_of(host, made, authority)
    assert ("certificate verify failed" in said) == (not fits)
    assert talked == fits


def test_an_address_alone_makes_no_certificate_good(files: Files) -> None:
    """A stranger's authority may have put it there."""
    made = files.stranger.issue("pretender", "/CN=127.0.0.1", names="IP:127.0.0.1,DNS:127.0.0.1")
    said, talked = refusal_of("127.0.0.1", made, files.authority)
    assert "certificate verify failed" in said
    assert not talked


def test_the_tools_say_that_a_certificate_has_expired(files: Files) -> None:
    """Another authority would not help."""
    said, talked = refusal_of("127.0.0.1", files.expired, files.authority)
    assert "certificate verify failed: certificate has expired" in said
    assert "renew it there" in said
    assert "--ssl-trustfile" not in said
    assert not talked


def test_what_was_wrong_with_a_host_before_is_not_told_of_it_now(files: Files) -> None:
    """Its certificate had expired; that of today is a stranger's."""
    refusal_of("127.0.0.1", files.expired, files.authority)
    refusal_of("127.0.0.1", files.stranger.issue("now", "/CN=127.0.0.1"), files.authority)
    assert out_of_time("127.0.0.1") == ""


@pytest.mark.parametrize("which", ["none", "foreign", "expired"])
def test_a_wrong_certificate_is_refused(files: Files, router: RunningRouter, since: Since, which: str) -> None:
    """Counted, and told with the peer's name."""
    certificate = None if which == "none" else getattr(files, which)
    assert not attempt(urls_of(router.output)[1], client(files, certificate, mechanisms="EXTERNAL")).opened
    since.counted("refused_tls", 1)
    since.says(r"connection of 127\.0\.0\.1:\d+ refused: the TLS handshake failed")
    assert attempt(urls_of(router.output)[1], client(files, files.client, mechanisms="EXTERNAL")).opened


def test_a_plain_client_is_refused_where_tls_is_required(router: RunningRouter, since: Since) -> None:
    for credentials in (Credentials(), Credentials(sasl=False)):
        assert not attempt(urls_of(router.output)[0], credentials).opened
    since.counted("refused_unprotected", 2)
    since.says(r"connection of 127\.0\.0\.1:\d+ refused: .*unencrypted", 2)


def test_a_certificate_does_not_replace_authentication(files: Files, router: RunningRouter) -> None:
    """ANONYMOUS is not among the mechanisms."""
    assert not attempt(urls_of(router.output)[1], client(files, files.client, mechanisms="ANONYMOUS")).opened


def test_garbage_hurts_nobody(files: Files, router: RunningRouter, since: Since) -> None:
    """Half a handshake, a hello cut off, random bytes: the others are served on."""
    place = ("127.0.0.1", int(urls_of(router.output)[0].rpartition(":")[2]))
    junk = [
        b"\x16\x03\x01\x02\x00" + b"x" * 600,
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/1.0\r\n\r\n",
        os.urandom(300),
    ]
    held = []
    for one in junk * 3:
        held.append(socket.create_connection(place))
        held[-1].sendall(one)
    assert attempt(urls_of(router.output)[0], client(files)).opened
    for one in held:
        one.close()
    until(lambda: router.counted("connections") == 0, "end of the junk")
    since.says(r"connection of 127\.0\.0\.1:\d+ refused: the TLS handshake failed", 3)
    assert re.search(r"connection of -", router.log) is None


def test_who_leaves_after_the_handshake_has_not_failed_in_it(files: Files, router: RunningRouter, since: Since) -> None:
    """TLS is there, OPEN does not come: no failed handshake, and the log says that it was not opened."""
    place = address_of(urls_of(router.output)[0].replace("amqps", "amqp"))
    context = ssl.create_default_context(cafile=str(files.authority.certificate))
    for said in (b"", b"AMQP\x03\x01\x00\x00"):
        with (
            socket.create_connection(place, LONG) as sock,
            context.wrap_socket(sock, server_hostname="localhost") as wrapped,
        ):
            wrapped.sendall(said)
    until(lambda: router.counted("connections") == 0, "their end")
    since.counted("refused_tls", 0)
    until(lambda: "ended before it was opened" in router.log, "the line")


def test_changed_certificates_are_used_at_once(files: Files, router: RunningRouter) -> None:
    """New connections get the new one; while the new one is unusable, the old one; the log says which."""
    trusts_stranger = Credentials(str(files.stranger.certificate))
    assert not attempt(urls_of(router.output)[0], trusts_stranger).opened
    other = files.stranger.issue("other", "/CN=localhost", password=PASSWORD)
    before = (files.server.certificate.read_bytes(), files.server.key.read_bytes())
    try:
        time.sleep(1.1)  # files are looked at once a second
        replace(files.server.certificate, other.certificate.read_bytes())
        assert attempt(urls_of(router.output)[0], client(files)).opened  # the key does not fit: nothing changes
        until(lambda: router.counted("certificates_failed") == 1, "count")
        until(lambda: "is not the key of the certificate" in router.log, "the log line")
        time.sleep(1.1)
        replace(files.server.key, other.key.read_bytes())
        assert attempt(urls_of(router.output)[0], trusts_stranger).opened
        assert router.counted("certificates_loaded") == 1
    finally:
        replace(files.server.certificate, before[0])
        replace(files.server.key, before[1])
    router.log_file.write_bytes(b"")  # its complaint was wanted


def replace(file: Path, content: bytes) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(content)
    new.rename(file)


def test_a_certificate_that_is_no_longer_listed_shuts_its_owner_out(files: Files, tmp_path: Path) -> None:
    """What docs/security.md says to do as there is no revocation: digests in a file, users in a group."""
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(files.client.certificate.read_text())).hexdigest()
    names = tmp_path / "names.json"
    names.write_text(msgspec.json.encode({digest: "alice"}).decode())
    listed = profile(files, "listed").replace("uidFormat: on", f"uidFormat: 2\n uidNameMappingFile: {names}")
    policy = "policy {\n enableVhostPolicy: yes\n}\n"
    users = "vhost {\n hostname: v\n groups: {\n g: {\n users: alice\n remoteHosts: *\n sources: *\n }\n }\n}\n"
    first = "host: 127.0.0.1\n port: 0\n sslProfile: listed\n authenticatePeer: yes\n policyVhost: v\n"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("ROUTERD_TEST_PASSWORD", PASSWORD)
        configuration = Configuration(
            "workers: 1", first + " requireSsl: yes\n saslMechanisms: EXTERNAL", listed + policy + users
        )
        router = RunningRouter(tmp_path, configuration)
    try:
        url, who = urls_of(router.output)[0], client(files, files.client, mechanisms="EXTERNAL")
        assert attempt(url, who).error == ""
        names.write_text("{}")
        until(lambda: attempt(url, who).error == "amqp:resource-limit-exceeded", "the refusal")
        until(lambda: f"user '{digest}' is in no group of vhost v" in router.log, "the log line")
    finally:
        router.stop()
