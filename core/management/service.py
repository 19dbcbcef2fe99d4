"""The agent at work: requests from the core's own links, a thread that answers them, replies to the core.

The forwarder runs without the interpreter lock, so whatever the agent does in its thread, messages go on.
Only the core's thread changes tables or sends: what the agent wants done there is put in a mailbox, and the
core is woken to look into it. The thread, and the engine's message class, come with the first request.
"""

import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

import msgspec

from core.management.agent import Agent
from core.management.log import keep_recent
from core.management.request import BAD_REQUEST, INTERNAL, ManagementError, Response
from core.management.view import View
from core.router import Core
from shm.control import ChangeReply, ChangeRequest, Setup
from shm.management import Management
from shm.segment import Segments

LOGGER = logging.getLogger("AGENT")

ADDRESSES: Final = ("$management", "_local/$management")  # _topo/0/<id>/$management is the second
WAITING: Final = (
    256  # requests that wait for their turn; more are dropped, and asked again by those who want to know
)
COMMAND_SECONDS: Final = 10.0
CHANGE_SECONDS: Final = 30.0  # of the supervisor, which may be reading a file or looking a host up
SWITCH_SECONDS: Final = 0.0005  # how long the agent may keep the lock while the core's thread waits for it
REPLY_LIMIT: Final = 1 << 20  # bytes: what is longer must be asked for in pages
NICE: Final = 5  # of the agent's thread: on a CPU of its own core's process it lets messages go first

_TOO_LONG = Response(
    BAD_REQUEST,
    {},
    f"the response has more than {REPLY_LIMIT} bytes or 65,535 values; ask in pages, with offset and count",
)


class _Command:
    """Something to be done in the core's thread."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self.action = action
        self.done = threading.Event()
        self.result: Any = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.result = self.action()
        except Exception as error:  # raised again in the agent's thread
            self.error = error
        self.done.set()


class Service:
    """Requests in, replies out. All but ``_serve`` and what it calls runs in the core's thread."""

    def __init__(
        self, core: Core, setup: Setup, segments: Segments, tell: Callable[[msgspec.Struct], None]
    ) -> None:
        self._core = core
        self._tell = tell  # the supervisor
        self._changes: dict[int, SimpleQueue[ChangeReply]] = {}  # asked for and not answered yet
        self._number = 0
        self._segments = segments
        self._requests: SimpleQueue[bytes] = SimpleQueue()
        self._mailbox: deque[tuple[str, bytes] | _Command] = deque()
        self._thread: threading.Thread | None = None
        self._view = view = View(core, setup, segments, self._command, self._change)
        recent = keep_recent([entity["module"] for entity in view.management.entities.get("log", ())])
        self._agent = Agent(view, recent)
        for address in ADDRESSES:
            core.local.subscribe(address, self.received)

    def received(self, content: bytes) -> None:
        """A request has come."""
        if self._requests.qsize() >= WAITING:
            LOGGER.warning("a management request was dropped: %d wait already", WAITING)
            return
        self._requests.put(content)
        if self._thread is None:
            sys.setswitchinterval(SWITCH_SECONDS)
            self._thread = threading.Thread(target=self._serve, name="management", daemon=True)
            self._thread.start()

    def set_management(self, management: Management) -> None:
        """The configuration has been read again: what it says stands for what was there, entity by entity."""
        self._view.configure(management)
        self._agent.configure(management)

    def changed(self, reply: ChangeReply) -> None:
        """The supervisor's answer to what the agent asked of it."""
        if (waiting := self._changes.pop(reply.number, None)) is not None:
            waiting.put(reply)

    def step(self) -> None:
        """Do what the agent has put in the mailbox."""
        while self._mailbox:
            item = self._mailbox.popleft()
            if isinstance(item, _Command):
                item.run()
                continue
            try:
                self._core.local.send(*item)
            except Exception:  # an address that a requester made up must not end the core
                LOGGER.exception("a management response could not be sent")
        self._core.forwarder.publish()

    # ---- the agent's thread ----

    def _serve(self) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        from core.management import codec  # noqa: PLC0415  the engine: not before somebody asks

        while True:
            content = self._requests.get()
            try:
                envelope, request = codec.decode(content)
            except codec.NoReplyError as error:
                LOGGER.info("a management request was dropped: %s", error)
                continue
            if isinstance(request, ManagementError):
                response = Response(request.status, {}, request.text)
            else:
                response = self._agent.handle(request)
            self._post((envelope.reply_to, self._encoded(codec, envelope, response)))

    def _encoded(self, codec: Any, envelope: Any, response: Response) -> bytes:
        try:
            encoded: bytes = codec.encode(envelope, response)
            if len(encoded) > REPLY_LIMIT:
                encoded = codec.encode(envelope, _TOO_LONG)
        except codec.TooManyValuesError:
            encoded = codec.encode(envelope, _TOO_LONG)
        except Exception as error:  # what an entity holds is not all ours: say so instead of saying nothing
            LOGGER.exception("a management response cannot be encoded")
            encoded = codec.encode(
                envelope, Response(INTERNAL, {}, f"the response cannot be encoded: {error}")
            )
        return encoded

    def _post(self, item: tuple[str, bytes] | _Command) -> None:
        self._mailbox.append(item)
        self._segments.semaphore.release()

    def _command(self, action: Callable[[], Any]) -> Any:
        """Run something in the core's thread, and wait for it."""
        command = _Command(action)
        self._post(command)
        if not command.done.wait(COMMAND_SECONDS):
            raise ManagementError(INTERNAL, f"the core did not answer within {COMMAND_SECONDS:g} s")
        if command.error is not None:
            raise command.error
        return command.result

    def _change(self, operation: str, kind: str, identity: str, attributes: dict[str, Any]) -> ChangeReply:
        """Ask the supervisor for a change, and wait for what becomes of it."""
        self._number += 1
        request = ChangeRequest(self._number, operation, kind, identity, attributes)
        answer: SimpleQueue[ChangeReply] = SimpleQueue()

        def ask() -> None:
            self._changes[request.number] = answer
            self._tell(request)

        self._command(ask)
        try:
            return answer.get(timeout=CHANGE_SECONDS)
        except Empty:
            raise ManagementError(
                INTERNAL,
                f"the supervisor did not answer within {CHANGE_SECONDS:g} s; look whether it was done",
            ) from None
