"""Logins of the console: which mechanism it takes, what goes over the wire, and whom it believes."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from proton import ConnectionException, LinkException
from proton.utils import BlockingConnection

from tests.support.clients.browser import Browser
from tests.support.clients.console import HTTP, press, see
from tests.support.clients.web import site
from tests.support.programs import sasl_users
from tests.support.running import LONG, Configuration, RunningRouter, needs_users

REFUSED = "the router does not accept this user and password"
SENT = """window.sent = [];
  const { send } = WebSocket.prototype;
  WebSocket.prototype.send = function (octets) { sent.push(octets); send.call(this, octets); };"""


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(sections=HTTP.format(""))


@needs_users
@pytest.mark.parametrize(("offered", "chosen"), [("PLAIN", "PLAIN"), ("PLAIN SCRAM-SHA-256", "SCRAM-SHA-256")])
def test_a_user_logs_in(tmp_path: Path, browser: Browser, offered: str, chosen: str) -> None:
    """Where the listener wants a login, the console asks for one, and has the rights of that user.

    With SCRAM no frame has the password, and names and passwords may have any characters.
    """
    user, password = "ali,ce", "se,cr=\u00e9t"
    sasl_users.make(tmp_path, **{user: password})
    settings = f"workers: 1\n saslConfigDir: {tmp_path}\n saslConfigName: routerd"
    sections = HTTP.format(f"saslMechanisms: {offered}")
    router = RunningRouter(tmp_path, Configuration(settings, sections=sections, expected="authentication|auth"))
    try:
        see(browser, site(router), "connections")
        browser.until("document.querySelector('#told').innerText.includes('log in first')")
        browser.run(SENT)
        assert browser.text("#rights") == "without login: not connected"
        assert not browser.run("document.querySelector('#log-in').hidden")
        for right in (False, True):
            press(browser, "#log-in")
            browser.run(f"document.querySelector('#user').value = '{user}'")
            browser.run(f"document.querySelector('#password').value = '{password if right else 'wrong'}'")
            browser.run("document.querySelector('#login button[value=yes]').click()")
            if not right:
                browser.until("document.querySelector('#told').innerText.includes('does not accept')")
                tried = len(browser.run("sent"))
                assert browser.run("renew().then(() => document.querySelector('#told').innerText)") == REFUSED
                assert len(browser.run("sent")) == tried  # a wrong password is not sent again
        browser.until("document.querySelectorAll('#rows tbody tr').length")
        assert browser.text("#rights") == f"as {user}: may change the router"
        assert browser.run("document.querySelector('#password').value") == ""
        mine = "{ type: 'connection', names: ['container', 'sasl'] }"
        rows = f"query({mine}, {{}}).then(found => found.rows.find(row => row.container === peer.container).sasl)"
        assert browser.run(rows) == chosen
        assert browser.run(f"sent.some(octets => textOf(octets).includes('{password}'))") == (chosen == "PLAIN")
        press(browser, "#log-out")
        assert browser.texts("#rows tbody tr") == []  # what the user could see goes with the user
        assert browser.run("document.activeElement.id") == "log-in"
        browser.until("document.querySelector('#told').innerText.includes('log in first')")
        assert browser.run("login === null && document.querySelector('#log-out').hidden")
        assert browser.complaints == []
    finally:
        router.kill()


def test_no_login_where_there_is_none(tmp_path: Path, browser: Browser) -> None:
    """A listener that takes certificates alone offers no field for a password, and the page says what to do."""
    sections = HTTP.format("saslMechanisms: EXTERNAL")
    router = RunningRouter(tmp_path, Configuration("workers: 1", sections=sections, expected="authentication|auth"))
    try:
        see(browser, site(router), "connections")
        browser.until("document.querySelector('#told').innerText.includes('takes no passwords')")
        assert "open the page of another listener" in browser.text("#told")
        assert browser.run("document.querySelector('#log-in').hidden")
    finally:
        router.kill()


TYPED, PREPARED = "\ufb01\u00bd\u00a0I\u00adX\uff41", "fi1\u20442 IXa"  # the same by RFC 4013


@needs_users
@pytest.mark.parametrize("kept", [TYPED, PREPARED])
@pytest.mark.parametrize("offered", ["PLAIN", "SCRAM-SHA-256"])
def test_a_password_that_is_prepared_or_is_not(tmp_path: Path, browser: Browser, offered: str, kept: str) -> None:
    """Cyrus SASL prepares none: its own client and the console log in as users were made. Where a password was made
    of what clients of RFC 5802 send, whoever types the other form at the console is let in, too."""
    sasl_users.make(tmp_path, alice=kept)
    settings = f"workers: 1\n saslConfigDir: {tmp_path}\n saslConfigName: routerd"
    sections = HTTP.format(f"saslMechanisms: {offered}")
    router = RunningRouter(tmp_path, Configuration(settings, sections=sections, expected="authentication|auth"))
    try:
        see(browser, site(router), "connections")
        assert browser.run(f"prepared({TYPED!a})") == PREPARED
        login = {"user": "alice", "password": TYPED}
        browser.run(f"login = {json.dumps(login)}")
        browser.run("go('connections')")
        browser.until("document.querySelectorAll('#rows tbody tr').length")
        assert browser.run("peer.login.password") == kept
    finally:
        router.kill()


@needs_users
def test_the_engine_prepares_no_password(tmp_path: Path) -> None:
    """Neither its clients nor its servers: so the form that was given to a user is the one that lets in."""
    sasl_users.make(tmp_path, alice=TYPED, bob=PREPARED)
    settings = f"workers: 1\n saslConfigDir: {tmp_path}\n saslConfigName: routerd"
    secured = "host: 127.0.0.1\n port: 0\n authenticatePeer: yes\n saslMechanisms: SCRAM-SHA-256"
    router = RunningRouter(tmp_path, Configuration(settings, secured, expected="authentication|auth"))

    def let_in(user: str, password: str) -> bool:
        with suppress(ConnectionException, LinkException):
            mechanism = {"allowed_mechs": "SCRAM-SHA-256", "allow_insecure_mechs": True}
            BlockingConnection(router.url, timeout=LONG, user=user, password=password, **mechanism).close()
            return True
        return False

    try:
        assert let_in("alice", TYPED)
        assert not let_in("alice", PREPARED)
        assert let_in("bob", PREPARED)
        assert not let_in("bob", TYPED)
    finally:
        router.kill()


@pytest.mark.parametrize(
    ("mechanism", "nonce", "challenge", "proof", "verdict"),
    [
        (  # RFC 5802, section 5
            "SCRAM-SHA-1", "fyko+d2lbbFgONRv9qkxdawL",
            "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
            "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=", "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        ),
        (  # RFC 7677, section 3
            "SCRAM-SHA-256", "rOprNGfwEbeRWgbNEkqO",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=", "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        ),
    ],
)  # fmt: skip
def test_scram_is_that_of_the_standard(
    router: RunningRouter, browser: Browser, mechanism: str, nonce: str, challenge: str, proof: str, verdict: str
) -> None:
    """Its examples; and a router that does not know the password, or asks for what helps to guess it, is none."""
    browser.open(site(router))
    browser.until("document.readyState === 'complete' && typeof Scram === 'function'")
    login = f"new Scram('{mechanism}', {{ user: 'user', password: 'pencil' }}, '{nonce}')"
    browser.run(f"window.trial = {login}")
    assert browser.run("textOf(trial.first)") == f"n,,n=user,r={nonce}"
    answer = "{0}.response(octetsOf('{1}')).then(textOf, error => error.message)"
    both = challenge.split(",", maxsplit=1)[0]
    assert browser.run(answer.format("trial", challenge)) == f"c=biws,{both},p={proof}"
    assert "does not prove" in browser.run(answer.format("trial", f"v={proof}"))
    assert not browser.run("trial.proven")
    assert browser.run(answer.format("trial", f"v={verdict}")) == ""
    assert browser.run("trial.proven")
    for wrong, why in (
        (challenge.replace("i=4096", "i=1"), "1 iterations"),
        (challenge.replace("i=4096", "i=4096000"), "iterations"),
        (challenge.replace(nonce[:5], "other"), "no answer"),
        (f"r={nonce},s=QSXCR+Q6sek8bf92,i=4096", "no answer"),
        ("v=", "no answer"),
        ("", "no answer"),
    ):
        assert why in browser.run(answer.format(login, wrong))
    assert "does not prove" in browser.run(f"try {{ {login}.check('v=') }} catch (error) {{ error.message }}")
