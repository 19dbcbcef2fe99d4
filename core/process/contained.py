"""A failure of the core at one peer's input ends that peer's connection and no other.

Several parts of the core handle each control record of a worker. Every part sees the record even if another
part failed at it, so a closed connection or link is gone everywhere. The core closes the connection whose
record a part failed at, and all parts see that end like any other.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from core.links.base import Base
from core.links.local import RefusedError, Source
from shm.contract.failures import failures
from shm.contract.payloads import Attach, ConnectionOpened, Cost, Detach, Error

CLOSED: Final = Error("amqp:internal-error", "The router failed at this connection; its log says why")

Part = Callable[[int, msgspec.Struct], None]


class Contained:
    """Runs parts of the core, and closes connections at which one has failed."""

    def __init__(self, base: Base) -> None:
        self._base = base

    def hear(self, parts: Iterable[Part], worker: int, message: msgspec.Struct) -> None:
        """Pass a worker's control record to each part."""
        for part in parts:
            try:
                part(worker, message)
            except Exception as error:  # one peer's input must not end everybody's messages
                what = f"{type(message).__name__} of worker {worker}"
                failures.tell(what, error, self._close(worker, message))

    def receive(self, receive: Callable[[], None], source: Source) -> bool:
        """Pass a message from a link to a subscriber in this process.

        Return False if the subscriber failed.
        """
        try:
            receive()
        except RefusedError:
            raise
        except Exception as error:  # as in `hear`
            link = None if source is None else self._base.links.find(*source)
            then = "the message is rejected"
            if link is not None:
                then = f"the message is rejected; {self._end(link.worker, link.connection)}"
            failures.tell("handling a message to the core", error, then)
            return False
        return True

    def _close(self, worker: int, message: msgspec.Struct) -> str:
        """Close the connection that a record concerns.

        Return a text for the log that says what was closed.
        """
        match message:
            case ConnectionOpened():
                return self._shut(worker, message)
            case Attach() | Cost():
                return self._end(worker, message.connection)
            case Detach() if (link := self._base.links.find(worker, message.link, message.generation)) is not None:
                return self._end(worker, link.connection)
        return "the record is dropped"

    def _end(self, worker: int, connection: int) -> str:
        opened = self._base.connections.find(worker, connection)
        if opened is None:
            return "its connection is gone"
        return self._shut(worker, opened)

    def _shut(self, worker: int, opened: ConnectionOpened) -> str:
        self._base.close_connection(worker, opened, CLOSED)
        return f"[C{opened.number}] of {opened.host} is closed"
