"""Clients that an authentication service judges: its word alone lets them in, and says what they may do."""

import contextlib
import re
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import proton
import pytest
from proton import Message, symbol, timestamp

from routerd.cli.client import Client, Place
from tests.support.certificates import Authority
from tests.support.clients.sasl_frames import CHALLENGE, INIT, OUTCOME, RESPONSE, SASL_HEADER, sasl
from tests.support.clients.secured import Credentials, Outcome, attempt
from tests.support.clients.wire import AMQP_HEADER
from tests.support.programs import sasl_users
from tests.support.running import LONG, Configuration, RunningRouter, address_of, free_port, until
from tests.support.servers.judge import AUTH, OK, SEND_RECV, Asked, Judge, SaslWire, admit, client, offered, word
from workers.control.logins import PER_HOST

MANY = [f"X-M{number}" for number in range(40)]  # in a frame of 512 octets
MOST = 30  # that are passed on
SYS_TEMP = 4
IDENTITY = symbol("authenticated-identity")
PROPERTIES: dict[str, Any] = {  # of OPEN, by the user whom the service lets in
    "text": {IDENTITY: "a name", symbol("address-authz"): {}},
    "wrong": {symbol("address-authz"): "everything"},
    "nameless": {IDENTITY: {"sub": 7}},
    "instant": {IDENTITY: timestamp(7)},
    "octets": {IDENTITY: {"sub": b"alice"}},
    "empty": {IDENTITY: {}},
    "null": {IDENTITY: None},
    "cut": {IDENTITY: {"sub": "alice\0bob"}},
    "list": [IDENTITY, "alice"],
}
CONTAINERS = {"unnamed": 7, "shapeless": None}
SILENT_INIT = sasl(INIT, symbol("PLAIN"), b"\0silent\0")


def judgement(wire: SaslWire, asked: Asked) -> None:
    """What becomes of a client, by its user's name."""
    if asked.mechanism == "X-STEPS":
        wire.say(CHALLENGE, b"who?")
        answer = wire.read()
        assert answer.code == RESPONSE
        admit(wire, word(bytes(answer.fields[0]).decode()), last=b"the last word")
        return
    if asked.mechanism == "ANONYMOUS":
        admit(wire, {})
        return
    match asked.user:
        case "alice" if asked.password == "secret":  # noqa: S105 - of this test
            admit(wire, word("alice of the realm", orders=SEND_RECV, **{"reply_${user}": SEND_RECV}))
        case "unsaid":
            admit(wire, word("mute"), capabilities=symbol("ADDRESS-AUTHZ"))
        case name if name in PROPERTIES:
            admit(wire, PROPERTIES[name])
        case name if name in CONTAINERS:
            admit(wire, word("alice"), container=CONTAINERS[name])
        case "silent":
            pass
        case "noise":
            wire.socket.sendall(b"\0\0\0\7 this is no frame")
        case "twice":
            wire.say(OUTCOME, OK, None)
            wire.say(CHALLENGE, b"one more thing")
        case "gone":
            wire.socket.close()
        case _:
            wire.say(OUTCOME, AUTH, None)


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    judge = Judge(judgement, ["EXTERNAL", "PLAIN", "X-STEPS", "ANONYMOUS", *MANY])
    yield judge
    judge.close()


@pytest.fixture(scope="module")
def by_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Judge, dict[str, Authority]]]:
    """A service by TLS, the authority that vouches for it, and another one."""
    folder = tmp_path_factory.mktemp("tls")
    authorities = {name: Authority(folder, name) for name in ("right", "stranger")}
    certificate = authorities["right"].issue("service", "/CN=localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    judge = Judge(judgement, tls=context)
    context.sni_callback = lambda _, name, __: judge.names.append(name)
    yield judge, authorities
    judge.close()


@pytest.fixture(scope="module")
def configuration(
    judge: Judge, by_tls: tuple[Judge, dict[str, Authority]], tmp_path_factory: pytest.TempPathFactory
) -> Configuration:
    """Listeners: without a service; with one; with little time, and users only; whose service is not there;
    whose service speaks TLS, and is to be trusted, or not; with users of the router's own."""
    folder = tmp_path_factory.mktemp("sasl")
    own = "log {\n module: MESSAGE"
    if proton.SASL.extended():
        sasl_users.make(folder, alice="secret")
        own = "listener {\n host: 127.0.0.1\n port: 0\n authenticatePeer: yes\n saslMechanisms: SCRAM-SHA-256"
    sections = plugin("judge", judge.port, "realm: the-realm") + plugin("nobody", free_port())
    for name, authority in by_tls[1].items():
        sections += f"sslProfile {{\n name: {name}\n caCertFile: {authority.certificate}\n}}\n"
        sections += plugin(name, by_tls[0].port, f"sslProfile: {name}", host="localhost")
    strict = "authenticatePeer: yes\n saslMechanisms: PLAIN ANONYMOUS\n initialHandshakeTimeoutSeconds: 1"
    sections += judged("judge") + judged("judge", strict) + judged("nobody") + judged("right") + judged("stranger")
    settings = f"workers: 1\n saslConfigDir: {folder}\n saslConfigName: routerd"
    return Configuration(settings, sections=f"{sections}{own}\n}}", expected="AUTHSERVICE|AGENT")


def plugin(name: str, port: int, more: str = "", host: str = "127.0.0.1") -> str:
    return f"authServicePlugin {{\n name: {name}\n host: {host}\n port: {port}\n {more}\n}}\n"


def judged(service: str, more: str = "") -> str:
    return f"listener {{\n host: 127.0.0.1\n port: 0\n saslPlugin: {service}\n {more}\n}}\n"


def plain(user: str, password: str = "") -> Credentials:
    return Credentials(user=user, password=password, mechanisms="PLAIN")


def counts(router: RunningRouter) -> tuple[int, int, int]:
    """How many have been let in, refused, and not judged, when everybody who came before has gone."""
    until(lambda: router.counted("connections") == 0, "end of earlier connections")
    return counted(router)


def counted(router: RunningRouter) -> tuple[int, int, int]:
    return (
        router.counted("auth_service_accepted"),
        router.counted("auth_service_refused"),
        router.counted("auth_service_failed"),
    )


def told(router: RunningRouter, before: tuple[int, int, int], *more: int) -> None:
    """So many more have been let in, refused, and not judged."""
    wanted = tuple(one + other for one, other in zip(before, more, strict=True))
    until(lambda: counted(router) == wanted, f"counts {wanted}")


def says(router: RunningRouter, what: str, start: int = 0) -> None:
    """Wait until the log says something, behind its first characters."""
    until(lambda: re.search(what, router.log[start:]), f"{what} in the log")


def links_of(router: RunningRouter, user: str, links: list[tuple[str, str | None]]) -> Outcome:
    return attempt(router.urls[1], plain(user, "secret"), links)


def test_the_services_word_is_who_a_client_is_and_what_it_may_do(router: RunningRouter, judge: Judge) -> None:
    """Its name is that of OPEN, not that of SASL; its addresses are those of address-authz."""
    before = counts(router)
    links = [("receiver", "orders"), ("dynamic", None), ("sender", None)]
    for address, outcome in (("bills", "amqp:unauthorized-access"), ("orders/2", "amqp:unauthorized-access")):
        allowed = attempt(router.urls[1], plain("alice", "secret"), links, Message(address=address))
        assert (allowed.opened, allowed.link_errors, allowed.dispositions) == (True, (), (outcome,))
    for kind in ("sender", "receiver"):
        assert links_of(router, "alice", [(kind, "bills")]).link_errors == ("amqp:unauthorized-access",)
    own = links_of(router, "alice", [("receiver", "reply_alice of the realm")])
    assert own.link_errors == ()
    told(router, before, 5, 0, 0)
    assert judge.asked[-1].hostname == "the-realm"
    says(router, r"service judge \(127\.0\.0\.1:\d+\) has let 127\.0\.0\.1:\d+ in as 'alice of")
    assert "secret" not in router.log


def test_nothing_is_allowed_by_an_empty_word(router: RunningRouter) -> None:
    outcome = links_of(router, "text", [("receiver", "orders")])
    assert (outcome.opened, outcome.link_errors) == (True, ("amqp:unauthorized-access",))
    says(router, "in as 'a name'")


def test_a_wrong_password_is_refused(router: RunningRouter) -> None:
    """Counted and told like those of the router's own users."""
    before, refused = counts(router), router.counted("refused_authentication")
    outcome = attempt(router.urls[1], plain("alice", "wrong"))
    assert (outcome.opened, outcome.error) == (False, "amqp:unauthorized-access")
    told(router, before, 0, 1, 0)
    until(lambda: router.counted("refused_authentication") == refused + 1, "count")
    says(router, r"service judge \(\S+\) has refused 127\.0\.0\.1:\d+")


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ("unsaid", "its address-authz is no map"),
        ("wrong", "its address-authz is no map"),
        ("nameless", "its authenticated-identity is neither"),
        ("instant", "its authenticated-identity is neither"),
        ("octets", "its authenticated-identity is neither"),
        ("empty", "its authenticated-identity is neither"),
        ("null", "its authenticated-identity is neither"),
        ("cut", "its authenticated-identity has a NUL"),
        ("unnamed", "its OPEN has no container-id"),
        ("shapeless", "its OPEN has no container-id"),
        ("list", "its OPEN has properties that are no map"),
        ("noise", "amqp:connection:framing-error"),
        ("twice", "malformed|framing|decode|unauthorized|closed"),
        ("gone", "aborted|ended|closed|reset"),
    ],
)
def test_a_service_that_makes_no_sense_lets_nobody_in(router: RunningRouter, user: str, why: str) -> None:
    before, lines = counts(router), len(router.log)
    outcome = attempt(router.urls[1], plain(user, "secret"))
    assert not outcome.opened
    told(router, before, 0, 0, 1)
    says(router, f"AUTHSERVICE.*({why})", lines)


def test_a_service_that_is_not_there(router: RunningRouter) -> None:
    before = counts(router)
    assert not attempt(router.urls[3], plain("alice", "secret")).opened
    told(router, before, 0, 0, 1)
    says(router, r"service nobody \(\S+\): .*refused; 127\.0\.0\.1:\d+ is refused")


def test_a_silent_service_costs_its_client_only(router: RunningRouter, judge: Judge) -> None:
    """Others are served meanwhile; the client's time ends, and with it the connection to the service."""
    while not judge.ends.empty():
        judge.ends.get()
    with client(address_of(router.urls[2])) as waiting:
        assert offered(waiting) == ["PLAIN"]  # ANONYMOUS would not authenticate anybody
        waiting.say(INIT, symbol("PLAIN"), b"\0silent\0x")
        assert attempt(router.url).opened
        assert waiting.ended()
    judge.ends.get(timeout=LONG)


def test_the_service_is_no_way_round_itself(router: RunningRouter) -> None:
    """Leaving SASL out leads nowhere, nor does EXTERNAL: the service would see the router's certificate."""
    assert not attempt(router.urls[1], Credentials(sasl=False)).opened
    with client(address_of(router.urls[1])) as wire:
        names = offered(wire)
        assert names[:3] == ["PLAIN", "X-STEPS", "ANONYMOUS"]
        assert len(names) <= MOST
        wire.say(INIT, symbol("EXTERNAL"), b"")
        assert wire.read().fields[0] != 0
        assert wire.ended()
    assert attempt(router.urls[1], Credentials(mechanisms="ANONYMOUS")).opened  # the service has judged


def test_an_exchange_of_several_steps_is_passed_on_whole(router: RunningRouter) -> None:
    """Challenge, response, what comes with the outcome; also if the client does not wait for mechanisms."""
    with client(address_of(router.urls[1])) as wire:
        wire.say(INIT, symbol("X-STEPS"), None)
        assert "X-STEPS" in offered(wire)
        assert bytes(wire.read().fields[0]) == b"who?"
        wire.say(RESPONSE, b"me")
        outcome = wire.read()
        assert (outcome.code, outcome.fields[0], bytes(outcome.fields[1])) == (OUTCOME, 0, b"the last word")


@pytest.mark.parametrize("said", [[(RESPONSE, b"x")], [(INIT, "PLAIN", b"\0silent\0x")] * 2])
def test_a_client_that_makes_no_sense_is_refused(router: RunningRouter, said: list[tuple[int, str, bytes]]) -> None:
    before = counts(router)
    with client(address_of(router.urls[1])) as wire:
        offered(wire)
        with contextlib.suppress(OSError):
            for code, *fields in said:
                wire.say(code, *(symbol(one) if isinstance(one, str) else one for one in fields))
        assert wire.ended()
    told(router, before, 0, 1, 0)


def test_a_service_by_tls_proves_its_name(router: RunningRouter, by_tls: tuple[Judge, dict[str, Authority]]) -> None:
    """A stranger's authority does not vouch for it: no password goes there. It hears which name is meant."""
    before = counts(router)
    assert attempt(router.urls[4], plain("alice", "secret")).opened
    assert not attempt(router.urls[5], plain("alice", "secret")).opened
    told(router, before, 1, 0, 1)
    assert set(by_tls[0].names) == {"localhost"}
    assert [asked.user for asked in by_tls[0].asked] == ["alice"]
    says(router, r"service stranger \(\S+\): .*certificate verify failed")


@pytest.mark.skipif(not proton.SASL.extended(), reason="the AMQP engine was built without Cyrus SASL")
def test_a_router_is_the_service(router: RunningRouter) -> None:
    """Even this one, whose only worker has both sides of the exchange; made at run time."""
    before, port = counts(router), free_port()
    with Client(Place(router.url)) as manage:
        place = {"host": "127.0.0.1", "port": str(address_of(router.urls[6])[1])}
        manage.call("CREATE", place, type="authServicePlugin", name="self")
        made = {"host": "127.0.0.1", "port": str(port), "saslPlugin": "self"}
        manage.call("CREATE", made, type="listener", name="judged")
    url = f"amqp://127.0.0.1:{port}"
    for password, opened in (("secret", True), ("wrong", False)):
        credentials = Credentials(user="alice", password=password, mechanisms="SCRAM-SHA-256")
        assert attempt(url, credentials).opened is opened
    told(router, before, 1, 1, 0)


def test_the_connection_to_a_silent_service_ends_with_its_client(router: RunningRouter, judge: Judge) -> None:
    """Also if the client has said more behind its login, which waits for the answer."""
    url = re.findall(r"amqps?://\S+", router.output)[1]
    before = len(judge.asked)
    wires = [client(address_of(url)) for _ in range(20)]
    for wire in wires:
        offered(wire)
        wire.socket.sendall(SILENT_INIT + AMQP_HEADER + bytes(60_000))
    until(lambda: len(judge.asked) == before + 20, "twenty questions to the service")
    for wire in wires:
        wire.socket.close()
    until(lambda: not router.counted("connections"), "end of all of them", 3.0)


def test_a_login_too_many_hears_an_outcome(router: RunningRouter, judge: Judge) -> None:
    """Also if it says everything at once; one line of the log tells of it."""
    before = len(judge.asked)
    with contextlib.ExitStack() as ends:
        for _ in range(PER_HOST):
            ends.enter_context(client(address_of(router.urls[1]))).socket.sendall(SILENT_INIT)
        until(lambda: len(judge.asked) == before + PER_HOST, "questions to the service")
        with SaslWire(socket.create_connection(address_of(router.urls[1]))) as wire:
            wire.socket.sendall(SASL_HEADER + SILENT_INIT + AMQP_HEADER)
            peer = "{}:{}".format(*wire.socket.getsockname())
            assert wire.exactly(8) == SASL_HEADER
            assert offered(wire) == []
            assert (got := wire.read()).code == OUTCOME
            assert got.fields[0] == SYS_TEMP
            assert wire.ended()
    until(lambda: not router.counted("connections"), "end of all of them")
    lines = [line for line in router.log.splitlines() if peer in line]
    assert len(lines) == 1
    assert f"{PER_HOST} logins of its address wait for an answer; {peer} is refused" in lines[0]
