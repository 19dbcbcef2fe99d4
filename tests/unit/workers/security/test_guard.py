"""The guard of a worker: users of certificates, changed certificates, refusals, and their counters."""

import os
from pathlib import Path
from typing import Any

import pytest

from shm.contract.complaints import LINE_BURST
from shm.contract.control import ConnectorSetup, ListenerSetup
from shm.contract.security import GroupSetup, PolicySetup, ServiceSetup, TlsSetup, VhostSetup
from shm.statistics import stats
from workers.control.guard import Guard
from workers.control.policy import DeniedError
from workers.control.tls import CertificateError

ROOT = Path(__file__).parents[4]
SERVICE = ServiceSetup("s", "h", "5671")


class Engine:
    """What the pump would say of a connection with a certificate."""

    def __init__(self) -> None:
        self.subject = "CN=alice,O=Here,C=DE"
        self.refuses: str | None = None
        self.used: list[object] = []
        self.limits: list[tuple[object, ...]] = []
        self.failed = False
        self.cipher = "cipher"

    def secure_listener(self, number: int, tls: dict[str, str | bool] | None) -> str | None:
        self.used.append(tls)
        return self.refuses

    def certificate_subject(self, index: int) -> str:
        return self.subject

    def certificate_digest(self, index: int, algorithm: int) -> str | None:
        return f"digest{algorithm}"

    def require_encryption(self, number: int, required: bool) -> None:
        self.required = required

    def protection(self, index: int) -> tuple[bool, bool, str, str, int]:
        return True, True, "TLSv1.3", self.cipher, 256

    def peer(self, index: int) -> str:
        return "10.0.0.1:9"

    def sasl_refused(self, index: int) -> bool:
        return self.failed

    def listener_of(self, index: int) -> int:
        return 4

    def limit(self, *arguments: object) -> None:
        self.limits.append(arguments)


class Counters(dict[int, int]):
    def add(self, which: int, n: int = 1) -> None:
        self[which] = self.get(which, 0) + n

    def get(self, which: int, otherwise: int = 0) -> int:  # type: ignore[override]  # a page has no None
        return super().get(which, otherwise)

    def named(self) -> dict[str, int]:
        return {name: self[index] for name, (index, *_) in stats.COUNTERS.items() if index in self}


class Home:
    def __init__(self, policy: PolicySetup, tls: TlsSetup | None) -> None:
        self.engine, self.counters = Engine(), Counters()
        self.guard = Guard(policy, self.engine, self.counters)
        self.listener = ListenerSetup("l", [], tls=tls)
        self.guard.protect(4, self.listener)

    def user(self, sasl_user: str = "", mechanism: str = "EXTERNAL") -> str:
        return self.guard.enter(1, self.listener, "h", sasl_user, mechanism, "10.0.0.1:9").user


@pytest.mark.parametrize(
    ("format_", "user"),
    [("n", "alice"), ("on", "Here;alice"), ("csn", "DE;alice"), ("2", "digest1"), ("n5", "alice;digest2")],
)
def test_a_certificate_names_its_user(format_: str, user: str) -> None:
    """Fields in the order of the letters, without those that are missing."""
    assert Home(PolicySetup(), TlsSetup("p", "c", uid_format=format_)).user("CN=alice") == user


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        (r"CN=k\C3\B6ln", "köln"),
        (r"CN=a\,b\+c\\\"\ ,O=x", 'a,b+c\\" '),
        (r"CN=\#1+OU=x,CN=other", "other"),
        (r"CN=\#1,2.5.4.99=#0401,O=x", "#1"),
        ("O=Here", ""),
        ("CN=YWJj=", "YWJj="),
        ("O=x,CN=a==", "a=="),
        ("CN=,O=x", ""),
    ],
)
def test_the_common_name_of_a_subject(subject: str, user: str) -> None:
    """Escapes are those of RFC 2253; of several fields of a type the certificate's first counts, the text's last."""
    home = Home(PolicySetup(), TlsSetup("p", "c", uid_format="n"))
    home.engine.subject = subject
    assert home.user() == user


@pytest.mark.parametrize(
    "subject",
    [
        r"CN=alice\00.evil",
        r"CN=alice\0A",
        r"CN=\C2\85",
        r"CN=k\F6ln",
        "CN=#0405616C696365",
        "CN=",
        "O=x,CN=",
        "CN=alice,O=",
        "CN=alice\\",
        "CN=alice,O",
        "CN",
    ],
)
def test_a_certificate_whose_subject_is_no_text_names_nobody(subject: str) -> None:
    """Two of them would be one user, or one would be somebody else."""
    home = Home(PolicySetup(), TlsSetup("p", "c", uid_format="cn"))
    home.engine.subject = subject
    with pytest.raises(DeniedError, match=r"the subject of its certificate has a field that is no text: "):
        home.user("CN=k")
    assert home.counters.named() == {"refused_authentication": 1}
    assert home.user("bob", "PLAIN") == "bob"


@pytest.mark.parametrize(
    "tls", [None, TlsSetup("p", "c"), TlsSetup("p", "c", uid_format="nx"), TlsSetup("p", "c", uid_format="l")]
)
def test_otherwise_the_user_is_that_of_sasl(tls: TlsSetup | None) -> None:
    assert Home(PolicySetup(), tls).user("bob") == "bob"


@pytest.mark.parametrize(
    ("mechanism", "user"),
    [("EXTERNAL", "alice"), ("external", "alice"), ("PLAIN", "bob"), ("SCRAM-SHA-256", "bob"), ("", "bob")],
)
def test_a_certificate_is_the_user_of_external_only(mechanism: str, user: str) -> None:
    """Who logs in with a password is the owner of the password, whatever certificate its machine has."""
    assert Home(PolicySetup(), TlsSetup("p", "c", uid_format="n")).user("bob", mechanism) == user


@pytest.mark.parametrize(
    ("user", "mechanism", "service", "login"),
    [
        ("bob", "PLAIN", None, "bob"),
        ("anonymous", "PLAIN", None, "anonymous"),
        ("anonymous", "ANONYMOUS", None, ""),
        ("anonymous", "anonymous", None, ""),
        ("bob", "ANONYMOUS", SERVICE, "bob"),
        ("anonymous", "PLAIN", SERVICE, ""),
        ("", "", None, ""),
    ],
)
def test_the_log_names_who_has_proved_it(user: str, mechanism: str, service: ServiceSetup | None, login: str) -> None:
    """Whoever lets a client in says whether its name is proved: the mechanism and the name do not tell."""
    guard = Home(PolicySetup(), None).guard
    listener = ListenerSetup("l", [], service=service)
    assert guard.enter(1, listener, "h", user, mechanism, "10.0.0.1:9").login == login


def test_whom_a_connector_has_called_is_no_login() -> None:
    """The user of such a connection is the router's own."""
    guard = Home(PolicySetup(), None).guard
    assert guard.leave(1, ConnectorSetup("c", 1, ["h:1"]), "me", "10.0.0.1:9").login == ""


@pytest.mark.parametrize(
    ("mechanism", "service", "granted"),
    [
        ("PLAIN", None, ["u_bob"]),
        ("EXTERNAL", None, ["u_bob"]),
        ("ANONYMOUS", None, []),
        ("anonymous", None, []),
        ("", None, []),
        ("ANONYMOUS", ServiceSetup("s", "h", "1"), ["u_bob"]),
    ],
)
def test_strangers_have_no_addresses_of_their_own(
    mechanism: str, service: ServiceSetup | None, granted: list[str]
) -> None:
    """An entry with the user's name grants something to who has logged in, or whom a service has named."""
    group = GroupSetup("$default", sources=["u_${user}"], target_patterns=["u_${user}"])
    policy = PolicySetup(enforce=True, vhosts=[VhostSetup("h", allow_unknown_user=True, groups=[group])])
    guard = Guard(policy, Engine(), Counters())
    listener = ListenerSetup("l", [], service=service)
    admission = guard.enter(1, listener, "h", "bob", mechanism, "10.0.0.1:9").admission
    assert admission is not None
    assert (admission.user, admission.sources, admission.target_patterns) == ("bob", granted, granted)


@pytest.mark.parametrize("peer", ["10.0.0.5:9", "[::ffff:10.0.0.5]:9"])
def test_a_host_is_one_by_each_socket(peer: str) -> None:
    """Systemd's gives IPv4 clients IPv6 addresses: their group knew none of them, and counted each one twice."""
    group = GroupSetup("$default", hosts=[("10.0.0.1", "10.0.0.9")])
    policy = PolicySetup(enforce=True, vhosts=[VhostSetup("h", allow_unknown_user=True, groups=[group])])
    admission = Guard(policy, Engine(), Counters()).enter(1, ListenerSetup("l", []), "h", "", "", peer).admission
    assert admission is not None
    assert admission.host == "10.0.0.5"


@pytest.mark.parametrize("role", ["normal", "inter-router"])
def test_who_came_before_its_listener_asked_for_a_login_is_not_let_in(role: str) -> None:
    """The engine asks those that come after the reload; one that waited with its OPEN was a router without any."""
    home = Home(PolicySetup(), None)
    home.listener = ListenerSetup("l", [], role=role, authenticate_peer=True)
    assert home.user("me", "PLAIN") == "me"
    for mechanism in ("", "ANONYMOUS"):
        with pytest.raises(DeniedError, match="takes only clients that have logged in"):
            home.user("anonymous", mechanism)
    assert home.counters.named() == {"refused_authentication": 2}


def test_whom_a_service_lets_in_without_a_name_has_no_addresses_of_its_own() -> None:
    """All such clients have one name, so what is granted to it would be granted to all."""
    group = GroupSetup("$default", sources=["q", "u_${user}"])
    policy = PolicySetup(enforce=True, vhosts=[VhostSetup("h", allow_unknown_user=True, groups=[group])])
    listener = ListenerSetup("l", [], service=SERVICE)
    admission = Guard(policy, Engine(), Counters()).enter(1, listener, "h", "anonymous", "ANONYMOUS", "h:9").admission
    assert admission is not None
    assert admission.sources == ["q"]


def test_names_are_mapped(tmp_path: Path) -> None:
    names = tmp_path / "names.json"
    names.write_text('{"alice": "Alice in Wonderland"}')
    tls = TlsSetup("p", "c", uid_format="n", uid_name_mapping_file=str(names))
    home = Home(PolicySetup(), tls)
    assert home.user() == "Alice in Wonderland"
    home.engine.subject = "CN=bob"
    assert home.user() == "bob"


def test_changed_files_are_loaded_once(tmp_path: Path) -> None:
    """Unusable ones are told and counted once, and tried again when they change again."""
    file = tmp_path / "c.pem"
    file.write_text("one")
    home = Home(PolicySetup(), TlsSetup("p", str(file)))
    home.guard.certificates_due(4)
    assert len(home.engine.used) == 1
    file.write_text("two!")
    home.guard.certificates_due(4)
    home.guard.certificates_due(4)
    assert len(home.engine.used) == 2
    home.engine.refuses = "certFile"
    os.utime(file, (1, 1))
    home.guard.certificates_due(4)
    home.guard.certificates_due(4)
    assert home.counters.named() == {"certificates_loaded": 1, "certificates_failed": 1}


def test_a_listener_that_cannot_be_protected_is_an_error() -> None:
    home = Home(PolicySetup(), None)
    home.engine.refuses = "certFile"
    with pytest.raises(CertificateError, match="sslProfile p: certFile: /none cannot be read"):
        home.guard.protect(4, ListenerSetup("l", [], tls=TlsSetup("p", "/none")))


@pytest.mark.parametrize(("protocols", "shut"), [("SSLv23", True), ("TLSv1.2, SSLv3", True), ("TLSv1.2", False)])
def test_a_listener_for_protocols_of_the_past_lets_nobody_in(protocols: str, shut: bool) -> None:
    """Not even without TLS, though that is not required."""
    home = Home(PolicySetup(), TlsSetup("p", "/c", protocols=protocols))
    assert home.engine.required == shut
    assert (home.engine.used == [None]) == shut


def test_limits_reach_the_engine_and_denials_are_counted() -> None:
    home = Home(PolicySetup(max_message_size=9), None)
    assert home.user("u") == "u"
    assert home.engine.limits == [(1, None, 9, 0, 0, 0)]
    home.guard.set_policy(PolicySetup(enforce=True))
    with pytest.raises(DeniedError):
        home.user("u")
    assert home.counters.named() == {"refused_vhost": 1}


@pytest.mark.parametrize(
    ("failed", "error", "counter"),
    [
        (True, ("amqp:unauthorized-access", "no"), "refused_authentication"),
        (False, ("amqp:connection:framing-error", "SSL Failure: x"), "refused_tls"),
        (False, ("amqp:connection:policy-error", "unencrypted"), "refused_unprotected"),
        (False, ("amqp:connection:framing-error", "garbage"), None),
        (False, None, None),
    ],
)
def test_refusals_are_told_apart(
    caplog: pytest.LogCaptureFixture, failed: bool, error: tuple[str, str] | None, counter: str | None
) -> None:
    """Each with its counter and one line that names the peer."""
    home = Home(PolicySetup(), None)
    home.engine.failed = failed
    caplog.set_level("INFO")
    assert home.guard.refused(1, "10.0.0.1:9", error) is (counter is not None)
    assert home.counters.named() == ({counter: 1} if counter else {})
    assert [("10.0.0.1:9" in line) for line in caplog.messages] == ([True] if counter else [])


@pytest.mark.parametrize(("cipher", "counter"), [("cipher", {}), ("", {"refused_tls": 1})])
def test_who_leaves_after_the_tls_handshake_has_not_failed_in_it(
    caplog: pytest.LogCaptureFixture, cipher: str, counter: dict[str, int]
) -> None:
    """A probe, say, that looks whether TLS is served: a plain line. In the midst of it: a failure."""
    home = Home(PolicySetup(), None)
    home.engine.cipher = cipher
    caplog.set_level("INFO")
    error = ("amqp:connection:framing-error", "SSL Failure: error:0A000126:SSL routines::unexpected eof while reading")
    assert home.guard.refused(1, "10.0.0.1:9", error)
    assert home.counters.named() == counter
    plain = "connection of 10.0.0.1:9 ended before it was opened"
    assert [(text == plain) for text in caplog.messages] == [not counter]


def test_a_flood_of_broken_connections_is_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever refuses to speak TLS, or breaks off, a thousand times does not fill the log."""
    caplog.set_level("INFO", "SERVER")
    guard = Home(PolicySetup(), None).guard
    for number in range(1000):
        failed = ("amqp:connection:framing-error", "SSL Failure: no shared cipher")
        assert guard.refused(3, f"10.0.0.1:{number}", failed)
        guard.unopened(f"10.0.0.1:{number}", ("amqp:connection:framing-error", "connection aborted"))
    assert 2 * LINE_BURST <= len(caplog.messages) <= 2 * LINE_BURST + 4


def test_a_full_router() -> None:
    """As many connections as the policy allows, by the core's count; another policy counts at once."""
    core = Counters()
    guard = Guard(PolicySetup(max_connections=2), Engine(), Counters(), core)
    assert not guard.full()
    core.add(stats.COUNTERS["connections_admitted"].place, 2)
    assert guard.full()
    guard.set_policy(PolicySetup(max_connections=3))
    assert not guard.full()


def test_other_routers_are_under_no_vhost_policy() -> None:
    """Whoever sends through them was judged by the router at which it came in; edge routers are judged."""
    guard = Guard(PolicySetup(enforce=True, max_message_size=9), Engine(), Counters())
    engine = guard._engine
    assert isinstance(engine, Engine)
    passed = guard.enter(1, ListenerSetup("l", [], role="inter-router"), "h", "r", "PLAIN", "10.0.0.1:9")
    assert (passed.user, passed.admission, engine.limits) == ("r", None, [])
    with pytest.raises(DeniedError):
        guard.enter(1, ListenerSetup("l", [], role="edge"), "h", "r", "PLAIN", "10.0.0.1:9")


@pytest.mark.parametrize(
    ("peer", "mechanism", "user", "listener", "right"),
    [
        ("10.0.0.1:9", "ANONYMOUS", "anonymous", {}, "read"),
        ("10.0.0.1:9", "anonymous", "anonymous", {"role": "inter-router"}, "read"),
        ("10.0.0.1:9", "", "", {"role": "edge"}, "read"),
        ("10.0.0.1:9", "PLAIN", "ann", {}, "all"),
        ("10.0.0.1:9", "PLAIN", "ann", {"management": "read"}, "read"),
        ("10.0.0.1:9", "ANONYMOUS", "anonymous", {"management": "all"}, "all"),
        ("127.0.0.1:9", "ANONYMOUS", "anonymous", {}, "all"),
        ("[::1]:9", "", "", {}, "all"),
        ("10.0.0.1:9", "ANONYMOUS", "anonymous", {"service": SERVICE}, "read"),
        ("10.0.0.1:9", "PLAIN", "ann", {"service": SERVICE}, "all"),
    ],
)
def test_a_stranger_from_another_machine_may_only_read(
    peer: str, mechanism: str, user: str, listener: dict[str, Any], right: str
) -> None:
    """Unless the listener says otherwise; who has logged in, or is on this machine, may manage."""
    home = Home(PolicySetup(), None)
    terms = ListenerSetup("l", [], **listener)
    assert home.guard.enter(1, terms, "h", user, mechanism, peer).management == right


@pytest.mark.parametrize(("tls", "peer", "right"), [(True, "h:1", "all"), (False, "h:1", "read")])
def test_who_is_called_is_known_by_its_certificate(tls: bool, peer: str, right: str) -> None:
    """Without TLS anybody may have answered."""
    home = Home(PolicySetup(), None)
    connector = ConnectorSetup("c", 5, [peer], tls=TlsSetup("p", client=True) if tls else None)
    assert home.guard.leave(1, connector, "", peer).management == right
