"""Runs the agent: requests arrive on the core's own links, and a thread answers them.

The forwarder runs without the interpreter lock, so messages flow whatever the agent's thread does. Only the
core's thread changes tables or sends. For that the agent puts commands into a mailbox and wakes the core. The
thread starts with the first request.
"""

import gc
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final

import msgspec

from core.addresses.tenants import is_made
from core.forwarder.forward import Way
from core.links.administration import Administration
from core.links.link import Link
from core.links.local import MESSAGE_LIMIT
from core.links.rights import LONGEST_TOLD
from core.links.terminus import EDGE
from core.management import codec
from core.management.agent import Agent
from core.management.connection import ROLES_OF_ROUTERS
from core.management.request import (
    BAD_REQUEST,
    INTERNAL,
    NOT_FOUND,
    Later,
    ManagementError,
    Requester,
    Response,
    TooLongError,
)
from core.management.view import View
from core.process.router import Core
from shm.contract.administering import READ, RIGHTS
from shm.contract.complaints import bursts
from shm.contract.control import Answered, ChangeReply, ChangeRequest, FromChild
from shm.contract.failures import AGAIN_SECONDS, failures, start_thread
from shm.contract.garbage import still
from shm.contract.management import Delta, Management
from shm.contract.payloads import POLL_LINK, SEEN_LINK, ConnectionOpened, Poll, Seen, SeenLink
from shm.contract.text import printable
from shm.contract.turns import Turns
from shm.statistics.stats import COUNTERS

LOGGER = logging.getLogger("AGENT")

REFUSED: Final = COUNTERS["refused_requests"].place

# Whose rights are unknown: it may ask, and gets answers only at names that nobody guesses.
GONE: Final = Requester(
    None,
    may_update_status=False,
    may_route_links=False,
    management=READ,
    reply_to=lambda text: text if is_made(text) else None,
)
ADDRESSES: Final = ("$management", "_local/$management")  # _topo/0/<id>/$management leads to the second
POLL_SECONDS: Final = 0.5  # for workers' answers; a busy worker answers within a turn
POLL_LINKS: Final = 500  # per question, because a worker does nothing else while it answers
WAITING: Final = 256  # waiting requests; further ones are dropped, and their senders ask again
LEAVING: Final = 64  # awaited answers at a time; the supervisor has a bound of its own for each
COMMAND_SECONDS: Final = 10.0
CHANGE_SECONDS: Final = 30.0  # for the supervisor, which may have to read a file or resolve a host
FREED: Final = 50  # rows of a page at a time
NICE: Final = 5  # of the agent's thread, so that messages go first when both share a CPU


class Service:
    """Takes requests and sends responses. All but ``_serve`` and its callees runs in the core's thread."""

    def __init__(self, core: Core, tell: Callable[[FromChild], None]) -> None:
        self._core = core
        self._tell = tell  # sends to the supervisor
        self._changes: dict[int, SimpleQueue[ChangeReply]] = {}  # requested and not answered yet
        self._awaited = 0  # the change whose answer the supervisor waits for, if the request makes one
        self._leaving: deque[tuple[int, str]] = deque(maxlen=LEAVING)  # awaited answers and their addresses
        self._polls: dict[int, SimpleQueue[Seen]] = {}
        self._number = 0
        self._router_id = core.setup.router_id
        self._requests = Turns()  # of connections; one that is unknown is one of them
        self._mailbox: deque[Callable[[], None]] = deque()
        self._drops, self._lines = bursts(), bursts()  # of log lines of the core's thread and of the agent's
        self._thread: threading.Thread | None = None
        self._give_way = Way(core.forwarder).give
        view = View(core, self._command, self._change, self._poll, self._give_way)
        core.seen = self._seen
        self._agent = Agent(view)
        for address in ADDRESSES:
            core.local.subscribe(address, self.received)
        core.plane(Administration).serve()

    def received(self, content: bytes) -> None:
        """Take a request, and drop one of who has most if too many wait."""
        requester = self._requester(self._core.local.source)
        dropped = self._requests.put(requester.connection, (content, requester), WAITING)
        if dropped is not None:
            self._core.forwarder.count(REFUSED)
            text = "dropped a management request of %s because %d others wait"
            self._drops.tell(time.monotonic(), LOGGER, logging.WARNING, text, dropped[1].peer, WAITING)
        if self._thread is None:
            self._thread = start_thread("management", self._serve, again=AGAIN_SECONDS)

    def _requester(self, source: tuple[int, int, int] | None) -> Requester:
        """Return the requester behind a link. One that is gone, or whose link is, may only read."""
        administration = self._core.plane(Administration)
        here = None if source is None else self._core.links.find(*source)
        link = here or (None if source is None else administration.departed(*source))
        connection = None if link is None else self._core.connections.find(link.worker, link.connection)
        if link is None or connection is None:
            return GONE
        if here is None:
            return self._left(link, connection)
        granted = link.guarded is None or link.guarded.admission.allow_admin_status_update
        may_route = link.guarded is None or link.guarded.admission.allow_dynamic_link_routes
        return Requester(
            connection.number,
            granted,
            may_route,
            connection.container,
            connection.host,
            connection.management,
            connection.role in ROLES_OF_ROUTERS,
            self._router_id,
            connection.role == EDGE,
            administration.led(link, self._core.local.text, connection),
            self._bound(link, connection),
            (lambda pattern, outgoing: True) if link.guarded is None else link.guarded.rights.routable,
            connection.login,
        )

    def _left(self, link: Link, connection: ConnectionOpened) -> Requester:
        """Return a requester that has closed its link and stays connected."""
        return msgspec.structs.replace(
            GONE,
            connection=connection.number,
            container=connection.container,
            peer=connection.host,
            management=min(connection.management, READ, key=RIGHTS.index),
            neighbour=connection.role in ROLES_OF_ROUTERS,
            router=self._router_id,
            edge=connection.role == EDGE,
            led=self._core.plane(Administration).led(link, self._core.local.text, connection),
            reply_to=self._bound(link, connection),
        )

    def _bound(self, link: Link, connection: ConnectionOpened) -> Callable[[str], str | None] | None:
        """Return what bounds a requester's reply-to, for the core's thread; None if nothing does."""
        if link.guarded is None and not connection.tenant:
            return None
        return partial(self._core.admissions.reply_to, link.guarded, connection.tenant)

    def set_management(self, management: Management) -> None:
        """Replace all entities by those of a newly read configuration."""
        self._agent.configure(management)

    def change_management(self, deltas: Sequence[Delta]) -> None:
        """Apply changes of entities of the configuration."""
        self._agent.change(deltas)

    def changed(self, reply: ChangeReply) -> None:
        """Pass the supervisor's answer to the agent."""
        if (waiting := self._changes.pop(reply.number, None)) is not None:
            waiting.put(reply)

    def _seen(self, seen: Seen) -> None:
        """Pass a worker's answer to the agent."""
        if (waiting := self._polls.get(seen.number)) is not None:
            waiting.put(seen)

    def step(self) -> None:
        """Run what the agent has put into the mailbox."""
        while self._mailbox:
            self._mailbox.popleft()()
        self._core.forwarder.publish()
        for _ in range(len(self._leaving)):
            number, address = self._leaving.popleft()
            if self._core.local.waiting(address):
                self._leaving.append((number, address))
            else:
                self._tell(Answered(number))

    def _send(self, address: str, content: bytes) -> None:
        try:
            self._core.local.send(address, content)
        except Exception as error:  # an address invented by a requester must not end the core
            failures.tell("sending a management response", error, "the requester gets no response")

    # ---- the agent's thread ----

    def _serve(self) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        gc.freeze()  # present objects, links and all, are exempt from collection
        while True:
            what, requester = self._requests.get()
            try:
                with still():
                    what() if callable(what) else self._answer(what, requester)
            except Exception as error:  # one request must not end all others
                failures.tell(f"a management request of {requester.peer}", error, "it gets no answer")

    def _answer(self, content: bytes, requester: Requester) -> None:
        try:
            envelope, request = codec.decode(content)
        except codec.NoReplyError as error:
            self._say(logging.INFO, "dropped a management request of %s: %s", requester.peer, error)
            self._post(self._refused)
            return
        reply_to = self._reply_to(requester, envelope)
        if reply_to is None:
            text = "dropped a management request of %s: it may neither send to its reply-to '%s' nor receive there"
            self._say(logging.INFO, text, requester.peer, printable(envelope.reply_to, LONGEST_TOLD))
            self._post(self._refused)
            return
        if isinstance(request, ManagementError):
            self._say(logging.ERROR, "a management request of %s refused: %s", requester.peer, request.text)
            response = Response(request.status, {}, request.text)
        elif requester.led and requester.may_read(request.operation):
            try:
                if self._passed_on(requester.led, codec.led(content, requester.led, reply_to)):
                    return
                response = Response(NOT_FOUND, {}, f"no known router has the agent {requester.led}")
            except ManagementError as error:
                response = Response(error.status, {}, error.text)
            except Exception as error:  # the requester has to learn of it
                failures.tell(f"passing on a request of {requester.peer}", error, "the request is refused")
                response = Response(INTERNAL, {}, f"the request cannot be passed on: {error}")
        else:
            given = self._agent.handle(msgspec.structs.replace(request, requester=requester))
            if isinstance(given, Later):
                self._wait(envelope, reply_to, given, requester)
                return
            response = given
        self._respond(envelope, reply_to, response)

    def _wait(self, envelope: codec.Envelope, reply_to: str, later: Later, requester: Requester) -> None:
        """Answer when the response has been worked out, and others until then."""

        def respond() -> None:
            self._respond(envelope, reply_to, later.finish())

        self._post(lambda: later.then(lambda: self._requests.put(object(), (respond, requester))))

    def _respond(self, envelope: codec.Envelope, reply_to: str, response: Response) -> None:
        if response.status >= BAD_REQUEST:
            self._post(self._refused)
        encoded = self._encoded(envelope, response)
        self._post(lambda: self._send(reply_to, encoded))
        if awaited := self._awaited:
            self._awaited = 0
            self._post(lambda: self._leaving.append((awaited, reply_to)))
        self._free(response)

    def _reply_to(self, requester: Requester, envelope: codec.Envelope) -> str | None:
        """Return the address for the answer, or None if the requester may get none there."""
        bound = requester.reply_to
        return envelope.reply_to if bound is None else self._command(lambda: bound(envelope.reply_to))

    def _passed_on(self, text: str, content: bytes) -> bool:
        """Send a request to another router's agent. Return False if no router receives it.

        Raises ManagementError for one that is too long.
        """
        if len(content) > MESSAGE_LIMIT:
            what = f"the request has {len(content)} bytes when it is passed on, and {MESSAGE_LIMIT} are possible"
            raise ManagementError(BAD_REQUEST, what)

        def act() -> bool:
            address = self._core.addresses.resolve(text)
            there = self._core.local.reaches(text) and self._core.local.send(text, content)
            self._core.addresses.forget_idle(address)
            return there

        passed: bool = self._command(act)
        return passed

    def _say(self, level: int, text: str, *what: object) -> None:
        """Log what a request has caused, within the limit of such lines."""
        self._lines.tell(time.monotonic(), LOGGER, level, text, *what)

    def _refused(self) -> None:
        self._core.forwarder.count(REFUSED)

    def _free(self, response: Response) -> None:
        """Free the rows of a page some at a time: all of them at once would take too long."""
        rows = response.body.get("results") if isinstance(response.body, dict) else None
        while rows:
            del rows[-FREED:]
            self._give_way()

    def _encoded(self, envelope: codec.Envelope, response: Response) -> bytes:
        try:
            return codec.encode(envelope, response, self._give_way)
        except TooLongError as error:
            return codec.encode(envelope, Response(error.status, {}, error.text))
        except Exception as error:  # entities may hold values of others; an error beats silence
            failures.tell("encoding a management response", error, "the response says so")
            return codec.encode(envelope, Response(INTERNAL, {}, f"the response cannot be encoded: {error}"))

    def _post(self, action: Callable[[], None]) -> None:
        self._mailbox.append(action)
        self._core.memory.semaphore.release()

    def _command(self, action: Callable[[], Any]) -> Any:
        """Run a function in the core's thread and return its result.

        Raises ManagementError after ten seconds.
        """
        future: Future[Any] = Future()

        def act() -> None:
            try:
                future.set_result(action())
            except Exception as error:  # raised again in the agent's thread
                future.set_exception(error)

        self._post(act)
        try:
            return future.result(COMMAND_SECONDS)
        except TimeoutError:
            raise ManagementError(INTERNAL, f"the core did not answer within {COMMAND_SECONDS:g} s") from None

    def _change(self, operation: str, kind: str, identity: str, attributes: dict[str, Any]) -> ChangeReply:
        """Ask the supervisor for a change and return its answer. Raises ManagementError after 30 seconds."""
        self._number += 1
        request = ChangeRequest(self._number, operation, kind, identity, attributes)
        answer: SimpleQueue[ChangeReply] = SimpleQueue()

        def ask() -> None:
            self._changes[request.number] = answer
            self._tell(request)

        self._command(ask)
        try:
            reply = answer.get(timeout=CHANGE_SECONDS)
        except Empty:
            self._changes.pop(request.number, None)
            raise ManagementError(
                INTERNAL, f"the supervisor did not answer within {CHANGE_SECONDS:g} s; check whether it was made"
            ) from None
        self._awaited = reply.number if reply.awaited else 0
        return reply

    def _poll(self, links: Sequence[Link]) -> dict[int, SeenLink]:
        """Return the worker's state of each link, by identity. Late answers are missing."""
        asked: dict[int, list[Link]] = {}  # by number of the question
        questions: list[tuple[int, Poll]] = []  # the worker and its question
        for worker in {link.worker for link in links}:
            mine = [link for link in links if link.worker == worker]
            for start in range(0, len(mine), POLL_LINKS):
                self._number += 1
                asked[self._number] = some = mine[start : start + POLL_LINKS]
                names = b"".join(POLL_LINK.pack(link.link, link.generation) for link in some)
                questions.append((worker, Poll(self._number, names)))
        answers: SimpleQueue[Seen] = SimpleQueue()
        self._polls.update(dict.fromkeys(asked, answers))
        found: dict[int, SeenLink] = {}
        try:
            self._command(lambda: self._ask_workers(questions))
            until = time.monotonic() + POLL_SECONDS
            with suppress(Empty):
                for _ in asked:
                    seen = answers.get(timeout=max(0.0, until - time.monotonic()))
                    reported = zip(asked[seen.number], SEEN_LINK.iter_unpack(seen.links), strict=False)
                    found.update((link.identity, state) for link, state in reported if state[1] >= 0)
        finally:
            for number in asked:
                self._polls.pop(number, None)
        return found

    def _ask_workers(self, questions: Sequence[tuple[int, Poll]]) -> None:
        for worker, question in questions:
            self._core.post(worker, question)
        self._core.forwarder.publish()
