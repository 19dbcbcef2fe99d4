"""Logins with Cyrus SASL: a thread calls the library, so the worker's loop never blocks.

    said --queued--> asked --question--> the client answers, or leaves
                           --right-----> admitted
                           --wrong-----> logged, counted --DELAY_SECONDS after it was said--> denied

One thread answers, at a lower priority than the loop. It serves hosts in turn, so many logins from one host
do not delay those from others. A host cannot begin a login while PER_HOST of its logins wait for the thread,
as after a restart, or FAILED_PER_HOST wait for their denial, even if the client has left.
"""

import ipaddress
import logging
import os
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from shm.contract.complaints import Complaints
from shm.contract.control import ListenerSetup
from shm.contract.failures import failures, start_thread
from shm.contract.hosts import address_of, host_of
from shm.contract.text import printable
from workers.control.cyrus import (
    CONTINUE,
    MALFORMED,
    NO_MECHANISM,
    OK,
    WRONG,
    Cyrus,
    CyrusError,
    Exchange,
    Said,
    configuration,
)
from workers.control.neighbours import Name

SERVER = logging.getLogger("SERVER")

DELAY_SECONDS: Final = 1.0  # delay of the answer to a wrong password
PER_HOST: Final = 128
FAILED_PER_HOST: Final = 32
MOST: Final = 1024  # logins of all hosts that wait for the thread or their denial
TELL_SECONDS: Final = 0.5  # interval of lines about refused logins
SHOWN: Final = 64  # characters of a user's name in a line
NICENESS: Final = 10
NO_PASSWORD: Final = frozenset({"ANONYMOUS", "EXTERNAL"})  # mechanisms that the engine itself serves at once
LAYERED: Final = frozenset({"GSSAPI", "GS2-KRB5", "GS2-IAKERB", "DIGEST-MD5", "SRP", "SECURID", "NTLM"})

FAILED: Final = -1  # SASL_FAIL


class Relayer(Protocol):
    """The part of workers.loop.pump.Relayer that logins use."""

    def offer(self, place: int, mechanisms: str) -> None: ...
    def wake_by(self, fd: int) -> None: ...
    def challenge(self, index: int, generation: int, said: bytes) -> None: ...
    def admit(self, index: int, generation: int, user: str) -> None: ...
    def deny(self, index: int, generation: int) -> None: ...
    def refuse(self, index: int, generation: int, for_now: bool) -> None: ...


class Protection(Protocol):
    """The part of the guard that logins use; ``denied`` has connections with a logged refusal."""

    denied: set[int]

    def peer(self, index: int) -> str: ...
    def count(self, name: str) -> None: ...


class Login:
    """One client's login; the thread uses ``exchange``, the loop the other attributes."""

    def __init__(self, client: Name, peer: str, mechanism: str) -> None:
        self.client, self.peer, self.mechanism = client, peer, mechanism
        self.host = network(peer)
        self.gone = False  # the client has left, or its login is decided
        self.exchange: Exchange | None = None


class Asked:
    """A client's SASL octets and the answer to them; without ``said`` the client's exchange is over."""

    def __init__(self, login: Login, said: bytes | None, since: float) -> None:
        self.login, self.said, self.since = login, said, since
        self.answer = Said(FAILED)


class Queue:
    """The questions for the thread, by host, and its answers; a queue outlives its thread."""

    def __init__(self) -> None:
        self._more = threading.Condition()
        self._by_host: OrderedDict[str, deque[Asked]] = OrderedDict()
        self.answered: deque[Asked] = deque()
        self.taken: Asked | None = None  # taken by the thread and not answered yet

    def put(self, asked: Asked) -> None:
        """Queue a question of the client's host."""
        with self._more:
            self._by_host.setdefault(asked.login.host, deque()).append(asked)
            self._more.notify()

    def take(self) -> Asked:
        """Wait for a question, and return the first one of the host whose last turn is longest ago."""
        with self._more:
            while not self._by_host:
                self._more.wait()
            host, waiting = self._by_host.popitem(last=False)
            asked = waiting.popleft()
            if waiting:
                self._by_host[host] = waiting  # at the end
            self.taken = asked
            return asked

    def answer(self) -> None:
        """Move the taken question to the answered ones, unless its exchange is over."""
        asked, self.taken = self.taken, None
        if asked is not None and asked.said is not None:
            self.answered.append(asked)


class LoginThread:
    """Asks Cyrus SASL about one client after the other, and writes to the eventfd ``bell`` each time."""

    def __init__(self, cyrus: Cyrus, queue: Queue, bell: int) -> None:
        self._cyrus, self._queue, self._bell = cyrus, queue, bell

    def run(self) -> None:
        """Answer questions until the process ends."""
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        while True:
            asked = self._queue.take()
            try:
                self._answer(asked)
            except Exception as error:  # any failure refuses only this client
                asked.answer = Said(FAILED, why=f"{type(error).__name__}: {error}")
                if not isinstance(error, CyrusError):
                    failures.tell("asking Cyrus SASL about a client", error, "that client is refused")
            self._queue.answer()
            os.eventfd_write(self._bell, 1)

    def _answer(self, asked: Asked) -> None:
        login, said = asked.login, asked.said
        if said is None or login.gone:
            if login.exchange is not None:
                login.exchange.close()
                login.exchange = None
        elif login.exchange is None:
            login.exchange = Exchange(self._cyrus)
            asked.answer = login.exchange.start(login.mechanism, said)
        else:
            asked.answer = login.exchange.step(said)


class Logins:
    """The logins of all clients of one worker."""

    def __init__(
        self,
        guard: Protection,
        relayer: Relayer,
        directory: str,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        library: Callable[[str, str], Cyrus] = Cyrus,
    ) -> None:
        self._relayer = relayer
        self._guard = guard
        self._names = directory, name
        self._users = configuration(directory, name).get("sasldb_path", "")
        self._clock, self._library = clock, library
        self._bell = -1
        self._cyrus: Cyrus | None = None
        self._mechanisms: list[str] = []
        self._queue = Queue()
        self._thread: threading.Thread | None = None
        self._logins: dict[Name, Login] = {}
        self._undecided: Counter[str] = Counter()  # logins that wait for the thread, by host
        self._failed: Counter[str] = Counter()  # logins that wait for their denial, by host
        self._denials: deque[Asked] = deque()  # oldest first
        self._complaints = Complaints(TELL_SECONDS)

    # ---- listeners ----

    def serve(self, place: int, listener: ListenerSetup) -> None:
        """Offer a listener's SASL mechanisms to the clients of its place in the pump."""
        wanted = listener.sasl_mechanisms.upper().split()
        layered = LAYERED.intersection(wanted)
        if listener.service is not None or layered or (wanted and NO_PASSWORD.issuperset(wanted)):
            self._relayer.offer(place, "")
            return
        known = self._known()
        self._relayer.offer(place, " ".join(one for one in known if not wanted or one in wanted))

    def _known(self) -> list[str]:
        """Return the mechanisms of Cyrus SASL; empty if it cannot be used."""
        if self._cyrus is None:
            try:
                self._cyrus = self._library(*self._names)
                self._mechanisms = self._cyrus.mechanisms()
            except CyrusError as error:
                SERVER.error("nobody can log in with a password: %s", error)
                return []
            self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._relayer.wake_by(self._bell)
        return self._mechanisms

    # ---- clients ----

    def said(self, client: Name, mechanism: str, said: bytes) -> None:
        """Queue a client's sasl-init or sasl-response, or refuse it if too many logins wait."""
        login = self._logins.get(client)
        if login is None:
            login = Login(client, self._guard.peer(client[0]), mechanism)
            if crowd := self._crowded(login.host):
                self._guard.count("refused_authentication")
                self._guard.denied.add(client[0])
                text = "connection of %s refused: %s; it may try again"
                self._complaints.tell(self._clock(), SERVER, logging.WARNING, text, login.peer, crowd)
                self._relayer.refuse(*client, for_now=True)
                return
            self._logins[client] = login
        self._undecided[login.host] += 1
        self._ask(Asked(login, said, self._clock()))

    def _crowded(self, host: str) -> str:
        """Return why a host may not begin a login now; empty if it may."""
        if self._failed[host] >= FAILED_PER_HOST:
            return f"{FAILED_PER_HOST} logins of its address have failed within {DELAY_SECONDS:g} s"
        return crowd(self._undecided[host], self._undecided.total() + self._failed.total())

    def left(self, client: Name) -> None:
        """End the login of a client that has left."""
        if login := self._logins.get(client):
            self._over(login)

    def _over(self, login: Login) -> None:
        del self._logins[login.client]
        login.gone = True
        self._ask(Asked(login, None, 0.0))

    def _ask(self, asked: Asked) -> None:
        self._queue.put(asked)
        if self._thread is None:
            self._begin()

    def _begin(self) -> None:
        assert self._cyrus is not None
        self._thread = start_thread("logins", LoginThread(self._cyrus, self._queue, self._bell).run)

    # ---- answers ----

    def wait(self, at_most: float) -> float:
        """Return the seconds until `step` has something to do, at most ``at_most``."""
        if not self._denials:
            return at_most
        return max(0.0, min(at_most, self._denials[0].since + DELAY_SECONDS - self._clock()))

    def step(self) -> None:
        """Pass the thread's answers to the clients, and deny those whose delay has passed."""
        if self._thread is None and not self._undecided and not self._denials:
            return
        if self._thread is None:
            self._begin()  # the system gave none when the first one asked
        elif not self._thread.is_alive():
            SERVER.error("the thread for logins has ended; another one takes its place")
            if self._queue.taken is not None:
                self._queue.taken.answer = Said(FAILED, why="the thread for logins has ended")
            self._queue.answer()
            self._begin()
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)
        while self._queue.answered:
            self._take(self._queue.answered.popleft())
        now = self._clock()
        while self._denials and self._denials[0].since + DELAY_SECONDS <= now:
            self._deny(self._denials.popleft())

    def _take(self, asked: Asked) -> None:
        login, answer = asked.login, asked.answer
        less(self._undecided, login.host)
        if answer.code < 0 and (answer.why or answer.user or not login.gone):
            self._log_failed(asked)
            self._failed[login.host] += 1
            self._denials.append(asked)
            return
        if login.gone:
            return
        if answer.code == CONTINUE:
            self._relayer.challenge(*login.client, answer.question)
        elif answer.code == OK:
            self._over(login)
            self._relayer.admit(*login.client, answer.user)

    def _log_failed(self, asked: Asked) -> None:
        """Log and count a failed login; the line does not reveal whether the user exists."""
        login, answer = asked.login, asked.answer
        if answer.code in WRONG:
            why = "the user or the password is wrong"
            if self._users and not os.access(self._users, os.R_OK):
                why += f"; {self._users}, the sasldb_path, cannot be read, so no password is right"
        elif answer.code in MALFORMED or answer.code == NO_MECHANISM:
            why = "the client's SASL data is malformed"
        else:
            why = f"Cyrus SASL failed: {answer.why}"
        user = printable(repr(answer.user), SHOWN) if answer.user else "nobody"
        self._guard.count("refused_authentication")
        if not login.gone:
            self._guard.denied.add(login.client[0])
        mechanism = printable(login.mechanism, SHOWN)
        text = "connection of %s refused: login of %s by %s failed: %s"
        self._complaints.tell(self._clock(), SERVER, logging.WARNING, text, login.peer, user, mechanism, why)

    def _deny(self, asked: Asked) -> None:
        less(self._failed, asked.login.host)
        if not asked.login.gone:
            self._over(asked.login)
            self._relayer.deny(*asked.login.client)


def crowd(of_host: int, of_all: int) -> str:
    """Return why no other login may wait while so many of its host and of all hosts do; empty if it may."""
    if of_host >= PER_HOST:
        return f"{PER_HOST} logins of its address wait for an answer"
    return f"{MOST} logins wait for an answer" if of_all >= MOST else ""


def less(counter: Counter[str], host: str) -> None:
    """Count one login of a host less."""
    counter[host] -= 1
    if not counter[host]:
        del counter[host]


def network(peer: str) -> str:
    """Return the host that a peer's logins count for: its IPv4 address or its IPv6 /64 network."""
    host = host_of(peer)
    address = address_of(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host if address is None else str(address)
