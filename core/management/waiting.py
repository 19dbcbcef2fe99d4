"""Requests that wait for the agent: connections take turns, and who has most of them makes room for others."""

from collections import deque
from threading import Condition
from typing import Any, Final

WAITING: Final = 256  # waiting requests; further ones are dropped, and their senders ask again


class Waiting:
    """A queue that one thread fills and another one empties. Requesters whose connection is unknown count as one."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._turns: dict[int | None, deque[Any]] = {}  # by connection; the first one is next
        self._ready: deque[Any] = deque()
        self._number = 0  # of the turns

    def put(self, connection: int | None, what: Any) -> Any:
        """Take a request. Return the one that is dropped for it, or None: the latest one of who has most."""
        with self._changed:
            mine = self._turns.setdefault(connection, deque())
            mine.append(what)
            self._number += 1
            if self._number > WAITING:
                most = max(self._turns, key=lambda one: (len(self._turns[one]), one == connection))
                dropped = self._turns[most].pop()
                self._number -= 1
                if not self._turns[most]:
                    del self._turns[most]
                return dropped
            self._changed.notify()
            return None

    def go_on(self, what: Any) -> None:
        """Take what has waited before, and is next."""
        with self._changed:
            self._ready.append(what)
            self._changed.notify()

    def get(self) -> Any:
        """Return what is next, and wait for it."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._turns)
            if self._ready:
                return self._ready.popleft()
            connection = next(iter(self._turns))
            mine = self._turns.pop(connection)
            what = mine.popleft()
            if mine:
                self._turns[connection] = mine  # behind the others
            self._number -= 1
            return what
