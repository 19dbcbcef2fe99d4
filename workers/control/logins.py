"""Clients that log in as users of the router's own: a thread asks Cyrus SASL, and the loop goes on.

    said --queued--> asked --question--> the client says more, or is gone
                           --right-----> let in
                           --wrong-----> told, counted --DELAY_SECONDS after it was said--> denied

One thread answers, at a lower priority than the loop. Addresses take turns, so who begins many logins keeps
nobody from another address waiting. No login is begun from an address while PER_HOST from there wait for the
thread, as after a restart, or FAILED_PER_HOST for their denial, also where the client does not wait for it.
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
)
from workers.control.neighbours import Name

SERVER = logging.getLogger("SERVER")

DELAY_SECONDS: Final = 1.0  # from a wrong password to the answer
PER_HOST: Final = 128
FAILED_PER_HOST: Final = 32
MOST: Final = 1024  # logins of all addresses, of both kinds
TELL_SECONDS: Final = 0.5  # between two lines about refused logins
SHOWN: Final = 64  # characters of a user's name
NICENESS: Final = 10
NO_PASSWORD: Final = frozenset({"ANONYMOUS", "EXTERNAL"})  # the engine knows how, and it costs nothing
LAYERED: Final = frozenset({"GSSAPI", "GS2-KRB5", "GS2-IAKERB", "DIGEST-MD5", "SRP", "SECURID", "NTLM"})

FAILED: Final = -1  # SASL_FAIL


class Relayer(Protocol):
    """What is asked of workers.loop.pump.Relayer."""

    def offer(self, place: int, mechanisms: str) -> None: ...
    def wake_by(self, fd: int) -> None: ...
    def challenge(self, index: int, generation: int, said: bytes) -> None: ...
    def admit(self, index: int, generation: int, user: str) -> None: ...
    def deny(self, index: int, generation: int) -> None: ...
    def refuse(self, index: int, generation: int, for_now: bool) -> None: ...


class Protection(Protocol):
    """What is asked of the guard. ``denied``: connections whose refusal was told and counted."""

    denied: set[int]

    def peer(self, index: int) -> str: ...
    def count(self, name: str) -> None: ...


class Login:
    """One client's. The thread has ``exchange``, the loop the rest."""

    def __init__(self, client: Name, peer: str, mechanism: str) -> None:
        self.client, self.peer, self.mechanism = client, peer, mechanism
        self.host = _network(peer)
        self.gone = False  # the client, or it is decided
        self.exchange: Exchange | None = None


class Asked:
    """What a client has said, and the answer to it. ``said`` None: its exchange is over."""

    def __init__(self, login: Login, said: bytes | None, since: float) -> None:
        self.login, self.said, self.since = login, said, since
        self.answer = Said(FAILED)


class Queue:
    """What is to be asked, by address, and what is answered. It outlives a thread."""

    def __init__(self) -> None:
        self._more = threading.Condition()
        self._by_host: OrderedDict[str, deque[Asked]] = OrderedDict()
        self.answered: deque[Asked] = deque()
        self.taken: Asked | None = None  # and not answered

    def put(self, asked: Asked) -> None:
        """Answer this when it is its turn."""
        with self._more:
            self._by_host.setdefault(asked.login.host, deque()).append(asked)
            self._more.notify()

    def take(self) -> Asked:
        """The first of whichever address has not had its turn for longest, as soon as there is one."""
        with self._more:
            while not self._by_host:
                self._more.wait()
            host, waiting = self._by_host.popitem(last=False)
            asked = waiting.popleft()
            if waiting:
                self._by_host[host] = waiting  # behind the others
            self.taken = asked
            return asked

    def answer(self) -> None:
        """What was taken has its answer; nobody waits for one where the exchange was over."""
        asked, self.taken = self.taken, None
        if asked is not None and asked.said is not None:
            self.answered.append(asked)


class LoginThread:
    """Asks Cyrus SASL about one client after the other, and rings ``bell`` when it has an answer."""

    def __init__(self, cyrus: Cyrus, queue: Queue, bell: int) -> None:
        self._cyrus, self._queue, self._bell = cyrus, queue, bell

    def run(self) -> None:
        """A thread's work, until the process ends."""
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        while True:
            asked = self._queue.take()
            try:
                self._answer(asked)
            except Exception as error:  # whatever it is: this client is refused, others go on
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
    """All clients of one worker that log in. ``relayer`` is set before the first."""

    def __init__(
        self,
        guard: Protection,
        directory: str,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        library: Callable[[str, str], Cyrus] = Cyrus,
    ) -> None:
        self.relayer: Relayer
        self._guard = guard
        self._names = directory, name
        self._clock, self._library = clock, library
        self._bell = -1
        self._cyrus: Cyrus | None = None
        self._mechanisms: list[str] = []
        self._queue = Queue()
        self._thread: threading.Thread | None = None
        self._logins: dict[Name, Login] = {}
        self._undecided: Counter[str] = Counter()  # logins that wait for the thread, by host
        self._failed: Counter[str] = Counter()  # and those that wait for their denial
        self._denials: deque[Asked] = deque()  # the oldest first
        self._complaints = Complaints(TELL_SECONDS)

    # ---- listeners ----

    def serve(self, place: int, listener: ListenerSetup) -> None:
        """A listener's place in the pump: by which mechanisms its clients may log in."""
        wanted = listener.sasl_mechanisms.upper().split()
        layered = LAYERED.intersection(wanted)
        if listener.service is not None or layered or (wanted and NO_PASSWORD.issuperset(wanted)):
            self.relayer.offer(place, "")
            return
        known = self._known()
        self.relayer.offer(place, " ".join(one for one in known if not wanted or one in wanted))

    def _known(self) -> list[str]:
        """The mechanisms of Cyrus SASL; none: the engine tells the clients so."""
        if self._cyrus is None:
            try:
                self._cyrus = self._library(*self._names)
                self._mechanisms = self._cyrus.mechanisms()
            except CyrusError as error:
                SERVER.error("nobody can log in with a password: %s", error)
                return []
            self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self.relayer.wake_by(self._bell)
        return self._mechanisms

    # ---- clients ----

    def said(self, client: Name, mechanism: str, said: bytes) -> None:
        """A client logs in, or has answered a question."""
        login = self._logins.get(client)
        if login is None:
            login = Login(client, self._guard.peer(client[0]), mechanism)
            if crowd := self._crowded(login.host):
                self._guard.count("refused_authentication")
                self._guard.denied.add(client[0])
                text = "connection of %s refused: %s; it may try again"
                self._complaints.tell(self._clock(), SERVER, logging.WARNING, text, login.peer, crowd)
                self.relayer.refuse(*client, for_now=True)
                return
            self._logins[client] = login
        self._undecided[login.host] += 1
        self._ask(Asked(login, said, self._clock()))

    def _crowded(self, host: str) -> str:
        """Why nobody else from there may log in for now; empty: somebody may."""
        if self._failed[host] >= FAILED_PER_HOST:
            return f"{FAILED_PER_HOST} logins of its address have failed within {DELAY_SECONDS:g} s"
        if self._undecided[host] >= PER_HOST:
            return f"{PER_HOST} logins of its address wait for an answer"
        if self._undecided.total() + self._failed.total() >= MOST:
            return f"{MOST} logins wait for an answer"
        return ""

    def left(self, client: Name) -> None:
        """A client is gone."""
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
        """Seconds until `step` has something to do."""
        if not self._denials:
            return at_most
        return max(0.0, min(at_most, self._denials[0].since + DELAY_SECONDS - self._clock()))

    def step(self) -> None:
        """Tell clients what the thread has found out, and deny those whose time has come."""
        if self._thread is None:
            return
        if not self._thread.is_alive():
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
        _less(self._undecided, login.host)
        if answer.code < 0 and (answer.why or answer.user or not login.gone):
            self._told(asked)
            self._failed[login.host] += 1
            self._denials.append(asked)
            return
        if login.gone:
            return
        if answer.code == CONTINUE:
            self.relayer.challenge(*login.client, answer.question)
        elif answer.code == OK:
            self._over(login)
            self.relayer.admit(*login.client, answer.user)

    def _told(self, asked: Asked) -> None:
        """Who knows a user's name learns as much from the log of an unknown one as of a wrong password."""
        login, answer = asked.login, asked.answer
        if answer.code in WRONG:
            why = "the user or the password is wrong"
        elif answer.code in MALFORMED or answer.code == NO_MECHANISM:
            why = "what the client says makes no sense"
        else:
            why = f"Cyrus SASL cannot tell: {answer.why}"
        user = printable(repr(answer.user), SHOWN) if answer.user else "nobody"
        self._guard.count("refused_authentication")
        if not login.gone:
            self._guard.denied.add(login.client[0])
        mechanism = printable(login.mechanism, SHOWN)
        text = "connection of %s refused: login of %s by %s failed: %s"
        self._complaints.tell(self._clock(), SERVER, logging.WARNING, text, login.peer, user, mechanism, why)

    def _deny(self, asked: Asked) -> None:
        _less(self._failed, asked.login.host)
        if not asked.login.gone:
            self._over(asked.login)
            self.relayer.deny(*asked.login.client)


def _less(counter: Counter[str], host: str) -> None:
    counter[host] -= 1
    if not counter[host]:
        del counter[host]


def _network(peer: str) -> str:
    """Whose logins are counted together: those of an IPv4 address, or of an IPv6 network (/64)."""
    host = host_of(peer)
    address = address_of(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, 64), strict=False))
    return host if address is None else str(address)
