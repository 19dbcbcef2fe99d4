"""Clients that log in with passwords: who waits for whom, what a wrong one costs, and what is told."""

import logging
import time
from pathlib import Path
from typing import Any

import pytest

from shm.contract.security import ServiceSetup
from tests.support.beds.logins import QUESTION, Home, listener
from workers.control import logins as subject
from workers.control.cyrus import CyrusError, Said
from workers.control.logins import DELAY_SECONDS, FAILED_PER_HOST, MOST, PER_HOST, Asked, Login, Queue


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Home:
    return Home(monkeypatch)


@pytest.mark.parametrize(
    ("mechanisms", "more", "offered"),
    [
        ("PLAIN", {}, "PLAIN"),
        ("plain EXTERNAL SCRAM-SHA-1", {}, "EXTERNAL PLAIN"),
        ("", {}, "ANONYMOUS EXTERNAL GSSAPI PLAIN SCRAM-SHA-256"),
        ("ANONYMOUS", {}, ""),
        ("EXTERNAL ANONYMOUS", {}, ""),
        ("PLAIN GSSAPI", {}, ""),
        ("PLAIN", {"service": ServiceSetup("s", "h", "1")}, ""),
    ],
)
def test_what_needs_a_password_goes_to_the_thread(
    home: Home, mechanisms: str, more: dict[str, Any], offered: str
) -> None:
    """Not what is decided without one, nor layers of encryption, nor what a service decides."""
    home.logins.serve(3, listener(mechanisms, **more))
    assert home.offered[3] == offered


def test_a_login_in_several_steps(home: Home) -> None:
    """A question goes to the client, its answer to the library, and then it is let in at once."""
    home.answers = {b"I": QUESTION, b"because": Said(0, b"", "alice")}
    home.say(1000, b"I")
    home.until(1)
    home.say(1000, b"because")
    home.until(2)
    assert home.done == [("challenge", 1000, b"what?"), ("admit", 1000, "alice")]
    assert home.counts == []
    assert home.logins._undecided.total() == 0


def test_a_wrong_password_is_answered_a_second_later(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """Told and counted at once, with a user's name that can break no line; others are served meanwhile."""
    home.answers = {b"w": Said(-13, b"", "al\nice" + "x" * 100, "wrong"), b"r": Said(0, b"", "bob")}
    home.say(1000, b"w")
    home.say(2000, b"r")
    home.until(2)
    assert home.done == [("admit", 2000, "bob")]
    assert home.logins.wait(5.0) == DELAY_SECONDS
    assert (home.denied, home.counts) == ({1000}, ["refused_authentication"])
    (line,) = caplog.messages
    name = "'al\\nice" + "x" * (subject.SHOWN - 11) + "..."
    said = f"login of {name} by PLAIN failed: the user or the password is wrong"
    assert line == f"connection of 10.0.0.1:1000 refused: {said}"
    home.now += DELAY_SECONDS
    home.logins.step()
    assert home.done[-1] == ("deny", 1000)
    assert home.logins._undecided.total() == 0


def test_users_that_are_gone_are_told_with_a_wrong_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Cyrus SASL says the same as to a wrong password, and whoever reads the log would look at the wrong end."""
    users = tmp_path / "users.sasldb"
    (tmp_path / "r.conf").write_text(f"pwcheck_method: auxprop\nsasldb_path: {users}\n")
    users.touch()
    home = Home(monkeypatch, str(tmp_path))
    for index, is_there in ((1000, True), (2000, False)):
        if not is_there:
            users.unlink()
        home.say(index, b"w")
        home.until(len(home.denied) + 1)
        home.now += subject.TELL_SECONDS
    there, gone = caplog.messages
    assert there.endswith("failed: the user or the password is wrong")
    assert gone.endswith(f"is wrong; {users}, the sasldb_path, cannot be read, so no password is right")


def test_nobody_learns_who_exists(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """An unknown user, a disabled one and a wrong password: one answer, one time, one kind of line."""
    home.answers = {bytes([one]): Said(-one, b"", "alice", f"code {one}") for one in (13, 18, 19, 20, 26)}
    for said in home.answers:
        home.say(1000 + said[0], said)
        home.until(len(home.denied) + 1)
        home.now += subject.TELL_SECONDS / 2
    home.now += DELAY_SECONDS
    home.logins.step()
    assert [one[0] for one in home.done] == ["deny"] * 5
    assert len({line.partition(" login ")[2].partition(" (and")[0] for line in caplog.messages}) == 1


def test_failed_logins_of_an_address_are_bounded(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """What goes beyond is refused for now, in few lines; who left before its denial counts all the same; who
    has begun before, or comes from elsewhere, gets in."""
    home.answers |= {b"r": Said(0, b"", "bob"), b"I": QUESTION}
    home.say(1997, b"I")
    home.until(1)
    for index in range(1000, 1000 + FAILED_PER_HOST):
        home.say(index)
    home.until(FAILED_PER_HOST + 1)
    for index in range(1000, 1000 + FAILED_PER_HOST):
        home.logins.left((index, 1))
    for index in range(1100, 1110):
        home.say(index, b"r")
    home.say(1997, b"r")
    home.until(FAILED_PER_HOST + 12)
    home.say(2000, b"r")
    home.until(FAILED_PER_HOST + 13)
    let_in = [("admit", 1997, "bob"), ("admit", 2000, "bob")]
    assert home.done[1:] == [*(("refuse", index) for index in range(1100, 1110)), *let_in]
    assert len(home.counts) == FAILED_PER_HOST + 10
    assert len(caplog.messages) == 2
    assert "32 logins of its address have failed within 1 s; it may try again" in caplog.messages[1]
    home.now += DELAY_SECONDS
    home.logins.step()
    home.say(1998, b"r")
    home.until(14)
    assert home.done[-1] == ("admit", 1998, "bob")
    assert not home.logins._failed


def test_waiting_logins_of_an_address_are_bounded(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """As many as come back after a restart may wait, and no more."""
    for index in range(1000, 1000 + PER_HOST + 1):
        home.say(index)
    assert home.done == [("refuse", 1000 + PER_HOST)]
    assert f"{PER_HOST} logins of its address wait for an answer; it may try again" in caplog.text
    home.until(PER_HOST + 1)


def test_all_addresses_together_are_bounded(home: Home) -> None:
    """Also by a number of logins that no address alone may have."""
    for index in range(0, 1000 * (MOST // PER_HOST + 1), 1000):
        for one in range(PER_HOST):
            home.say(index + one)
    assert [one[0] for one in home.done] == ["refuse"] * PER_HOST
    home.until(PER_HOST + MOST)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1:1", "10.0.0.1:2", True),
        ("10.0.0.1:1", "10.0.0.2:1", False),
        ("[::ffff:10.0.0.1]:1", "10.0.0.1:2", True),
        ("[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.2]:1", False),
        ("[2001:db8::1]:1", "[2001:db8::2:3:4]:1", True),
        ("[2001:db8::1]:1", "[2001:db8:0:1::1]:1", False),
        ("-", "-", True),
    ],
)
def test_whose_logins_are_counted_together(one: str, other: str, same: bool) -> None:
    """Of an IPv4 address, and of an IPv6 network, in which everybody has as many addresses as there are."""
    assert (Login((1, 1), one, "PLAIN").host == Login((2, 1), other, "PLAIN").host) == same


def test_addresses_take_turns() -> None:
    """One that asks for much is not ahead of one that asks for little."""
    queue = Queue()
    many = Login((1, 1), "10.0.0.1:1", "PLAIN"), Login((2, 1), "10.0.0.2:1", "PLAIN")
    for login, said in ((0, b"a"), (0, b"b"), (0, b"c"), (1, b"d"), (1, b"e")):
        queue.put(Asked(many[login], said, 0.0))
    assert b"".join(queue.take().said or b"" for _ in range(5)) == b"adbec"


def test_who_is_gone_costs_nothing(home: Home) -> None:
    """Its turn is passed over, and the library forgets it."""
    home.answers = {b"I": QUESTION}
    home.say(1000, b"I")
    home.until(1)
    home.say(1000, b"more")
    home.logins.left((1000, 1))
    for _ in range(10_000):
        home.logins.step()
        if home.closed and not home.logins._undecided:
            break
        time.sleep(0.001)
    assert home.closed == 1
    assert home.logins._logins == {}


def test_a_library_that_fails_refuses_one_client(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """The line says why, and the next one is served."""
    home.answers = {b"x": CyrusError("no memory"), b"r": Said(0, b"", "bob")}
    home.say(1000, b"x")
    home.until(1)
    home.say(1001, b"r")
    home.until(2)
    assert home.done == [("admit", 1001, "bob")]
    assert "login of nobody by PLAIN failed: Cyrus SASL failed: CyrusError: no memory" in caplog.text


def test_a_thread_that_ends_is_told_and_replaced(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    """The client that it was asked about is refused; what waited for it is answered by the next one."""
    caplog.set_level(logging.ERROR)
    home.answers = {b"end": SystemExit(), b"r": Said(0, b"", "bob")}
    home.say(1000, b"end")
    home.say(2000, b"r")
    home.until(2)
    assert home.done == [("admit", 2000, "bob")]
    assert [asked.login.client for asked in home.logins._denials] == [(1000, 1)]
    assert "the thread for logins has ended; another one takes its place" in caplog.text
