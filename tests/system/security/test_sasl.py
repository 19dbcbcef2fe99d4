"""SASL with users of the router's own."""

import base64
import os
import re
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import proton
import pytest
from proton import symbol

from routerd.cli.connection_options import ClientError, Place, connect
from tests.support.certificates import Authority
from tests.support.clients import wire
from tests.support.clients.sasl_frames import CHALLENGE, INIT, MECHANISMS, OUTCOME, RESPONSE, SASL_HEADER, sasl
from tests.support.clients.secured import Credentials, attempt
from tests.support.programs import sasl_users
from tests.support.running import LONG, Configuration, RunningRouter, Since, address_of, needs_users
from workers.control.logins import FAILED_PER_HOST

pytestmark = needs_users

LISTENER = "host: 127.0.0.1\n port: 0\n authenticatePeer: {}\n saslMechanisms: {}"


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    """Listeners: users only; users or nobody; users with encryption, which it cannot have; users with TLS; users whom
    the engine judges itself."""
    folder = tmp_path_factory.mktemp("sasl")
    sasl_users.make(folder, alice="secret", bob="hidden", **{os.fsdecode(b"k\xf6ln"): "octets"})
    settings = f"workers: 1\n saslConfigDir: {folder}\n saslConfigName: routerd"
    users = LISTENER.format("yes", "PLAIN SCRAM-SHA-256")
    either = LISTENER.format("no", "ANONYMOUS PLAIN")
    encrypted = f"{users}\n requireEncryption: yes"
    made = Authority(folder).issue("server", "/CN=localhost")
    profile = f"sslProfile {{\n name: p\n certFile: {made.certificate}\n privateKeyFile: {made.key}\n}}\n"
    sections = f"listener {{\n {either}\n}}\nlistener {{\n {encrypted}\n}}\n"
    sections += f"{profile}listener {{\n {users}\n sslProfile: p\n requireSsl: yes\n}}\n"
    sections += f"listener {{\n {LISTENER.format('yes', 'PLAIN GSSAPI')}\n}}\n"
    return Configuration(settings, users, sections)


@pytest.fixture(autouse=True)
def since(router: RunningRouter) -> Iterator[Since]:
    """What the test has caused."""
    yield Since(router)
    assert "secret" not in router.log


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_user_with_the_right_password(router: RunningRouter, mechanism: str) -> None:
    assert attempt(router.urls[0], Credentials(user="alice", password="secret", mechanisms=mechanism)).opened  # noqa: S106 - of this test


@pytest.mark.parametrize(
    ("user", "password", "mechanism"),
    [
        ("alice", "wrong", "PLAIN"),
        ("alice", "wrong", "SCRAM-SHA-256"),
        ("nobody", "secret", "PLAIN"),
        ("nobody", "secret", "SCRAM-SHA-256"),
        ("alice", "hidden", "PLAIN"),
    ],
)
def test_a_wrong_password_is_refused(
    router: RunningRouter, since: Since, user: str, password: str, mechanism: str
) -> None:
    """Counted, and told with the peer's name and the user's; a user that nobody knows is told alike."""
    outcome = attempt(router.urls[0], Credentials(user=user, password=password, mechanisms=mechanism))
    assert not outcome.opened
    since.counted("refused_authentication", 1)
    failed = f"login of '{user}' by {mechanism} failed: the user or the password is wrong"
    since.says(rf"connection of 127\.0\.0\.1:\d+ refused: {failed}")
    assert attempt(router.urls[0], Credentials(user="bob", password="hidden", mechanisms=mechanism)).opened  # noqa: S106 - of this test


class Raw:
    """A client that writes its SASL frames itself."""

    def __init__(self, router: RunningRouter, mechanism: str, said: bytes) -> None:
        self.sock = socket.create_connection(address_of(router.urls[0]), timeout=LONG)
        self.sock.sendall(SASL_HEADER)
        self.say(INIT, symbol(mechanism), said)
        assert wire.exactly(self.sock, 8) == SASL_HEADER
        assert self.hear().code == MECHANISMS

    def say(self, code: int, *fields: Any) -> None:
        self.sock.sendall(sasl(code, *fields))

    def hear(self) -> wire.Frame:
        return heard(self.sock)


@pytest.mark.parametrize("password", ["secret", "wrong"])
@pytest.mark.parametrize("listener", [0, 3], ids=["plain", "tls"])
def test_a_client_says_all_without_waiting(router: RunningRouter, since: Since, listener: int, password: str) -> None:
    """Header, login, header, OPEN, BEGIN and ATTACH in one write, as clients do that know how it will go (2.4.1)."""
    url = re.findall(r"amqps?://\S+", router.output)[listener].replace("amqps", "amqp")
    sock = socket.create_connection(address_of(url), timeout=LONG)
    if listener:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        sock = context.wrap_socket(sock)
    words = (
        SASL_HEADER,
        sasl(INIT, symbol("PLAIN"), f"\0alice\0{password}".encode()),
        wire.AMQP_HEADER,
        wire.frame(0, wire.described(wire.OPEN, "eager")),
        wire.begin(0),
        wire.frame(0, wire.described(wire.ATTACH, "link", proton.uint(0), True)),
    )
    sock.sendall(b"".join(words))
    assert wire.exactly(sock, 8) == SASL_HEADER
    assert heard(sock).code == MECHANISMS
    outcome = heard(sock)
    assert outcome.code == OUTCOME
    if password == "secret":  # noqa: S105 - of this test
        assert outcome.fields[0] == 0
        assert wire.exactly(sock, 8) == wire.AMQP_HEADER
        assert [heard(sock).code for _ in range(3)] == [wire.OPEN, wire.BEGIN, wire.ATTACH]
    else:
        assert outcome.fields[0] == 1
        assert not sock.recv(1)
        since.counted("refused_authentication", 1)
    sock.close()


def test_a_user_whose_name_is_no_text_is_refused(router: RunningRouter, since: Since) -> None:
    """With the right password. Two of them were one user, whose name had U+FFFD."""
    client = Raw(router, "PLAIN", b"\0k\xf6ln\0octets")
    assert client.hear().fields == [1]
    client.sock.close()
    since.counted("refused_authentication", 1)
    since.says(r"login of 'k\\+xf6ln' by PLAIN failed: the client's SASL data is malformed")


def test_a_user_of_the_engines_whose_name_is_no_text_is_refused(router: RunningRouter) -> None:
    url = re.findall(r"amqps?://\S+", router.output)[4]
    sock = socket.create_connection(address_of(url), timeout=LONG)
    sock.sendall(SASL_HEADER + sasl(INIT, symbol("PLAIN"), b"\0k\xf6ln\0octets"))
    assert wire.exactly(sock, 8) == SASL_HEADER
    assert heard(sock).code == MECHANISMS
    assert heard(sock).fields == [0]
    sock.sendall(wire.AMQP_HEADER + wire.frame(0, wire.described(wire.OPEN, "octets")))
    assert wire.exactly(sock, 8) == wire.AMQP_HEADER
    assert heard(sock).code == wire.OPEN
    assert heard(sock).fields[0].value == ["amqp:decode-error", r'the name of the user is not UTF-8: "k\xf6ln"']
    sock.close()


def heard(sock: socket.socket) -> wire.Frame:
    size = wire.exactly(sock, 4)
    found = wire.parse(size + wire.exactly(sock, int.from_bytes(size, "big") - 4))
    assert found is not None
    return found


def test_a_challenge_does_not_tell_which_users_exist(router: RunningRouter) -> None:
    """Of SCRAM (RFC 5802): it has the same form, and the same salt again, for users that there are and not;
    the answer to it comes in the same form."""
    salts, outcomes = [], []
    for user in ("alice", "nobody", "bob", "alice", "nobody"):
        client = Raw(router, "SCRAM-SHA-256", f"n,,n={user},r=mine".encode())
        challenge = client.hear()
        assert challenge.code == CHALLENGE
        found = re.fullmatch(rb"r=mine[A-Za-z0-9+/]{32},s=([A-Za-z0-9+/]{43}=),i=4096", challenge.fields[0])
        assert found is not None
        salts.append(found[1])
        proof = base64.b64encode(bytes(32))
        client.say(RESPONSE, challenge.fields[0].partition(b",s=")[0].join((b"c=biws,", b",p=" + proof)))
        outcomes.append((client, client.sock))
    assert (salts[0], salts[1]) == (salts[3], salts[4])
    assert len(set(salts)) == 3
    for client, sock in outcomes:
        answer = client.hear()
        assert (answer.code, answer.fields) == (OUTCOME, [1])
        sock.close()


def test_a_flood_of_guesses_is_bounded_and_holds_nobody_up(router: RunningRouter, since: Since) -> None:
    """Of one address so many may fail in a second, the others are to try again; all are counted, few lines
    are told, and clients without a password come in meanwhile."""
    guesses = [Raw(router, "PLAIN", b"\0alice\0guess") for _ in range(FAILED_PER_HOST)]
    since.counted("refused_authentication", FAILED_PER_HOST)
    more = [Raw(router, "PLAIN", b"\0alice\0guess") for _ in range(8)]
    assert attempt(router.urls[1]).opened
    codes = Counter(guess.hear().fields[0] for guess in (*guesses, *more))
    assert set(codes) <= {1, 4}  # AUTH, SYS-TEMP
    assert codes[1] >= FAILED_PER_HOST
    since.counted("refused_authentication", FAILED_PER_HOST + 8)
    for guess in (*guesses, *more):
        guess.sock.close()


def test_what_the_tools_say_of_users(router: RunningRouter, tmp_path: Path) -> None:
    """A password file is enough; what is wrong or missing is told with what to do."""
    file = tmp_path / "password"
    file.write_text("hidden\n")
    place = Place(router.urls[0], timeout=LONG, user="bob", password_file=str(file))
    connect(place).close()
    with pytest.raises(ClientError, match="the user, or the password, is not the right one"):
        connect(msgspec.structs.replace(place, user="alice"))
    with pytest.raises(ClientError, match="--sasl-username"):
        connect(Place(router.urls[0], timeout=LONG))


@pytest.mark.parametrize("credentials", [Credentials(mechanisms="ANONYMOUS"), Credentials(sasl=False)])
def test_nobody_is_refused_where_users_are_wanted(router: RunningRouter, credentials: Credentials) -> None:
    """Neither ANONYMOUS nor leaving SASL out is a way in."""
    assert not attempt(router.urls[0], credentials).opened


def test_anonymous_beside_users(router: RunningRouter) -> None:
    assert attempt(router.urls[1]).opened
    assert attempt(router.urls[1], Credentials(user="bob", password="hidden", mechanisms="PLAIN")).opened  # noqa: S106 - of this test
    assert not attempt(router.urls[1], Credentials(user="bob", password="wrong", mechanisms="PLAIN")).opened  # noqa: S106 - of this test


def test_a_password_in_the_clear_is_refused_where_encryption_is_required(router: RunningRouter, since: Since) -> None:
    credentials = Credentials(user="alice", password="secret", mechanisms="PLAIN")  # noqa: S106 - of this test
    assert not attempt(router.urls[2], credentials).opened
    since.counted("refused_unprotected", 1)
