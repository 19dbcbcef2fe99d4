"""What waits for a thread: those who bring it take turns, so that nobody waits for all that another one has brought."""

from collections import deque
from collections.abc import Hashable
from queue import Empty
from threading import Condition
from typing import Any


class Turns:
    """A queue for each key; the keys take turns. One thread empties it, and others fill it."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._queues: dict[Hashable, deque[Any]] = {}  # the first one is next
        self._number = 0  # of what waits
        self._ended = False

    def __len__(self) -> int:
        return self._number

    def put(self, key: Hashable, what: Any, most: int | None = None) -> Any:
        """Add something behind what has this key. Return what is dropped if more than ``most`` waits, or None.

        That is the latest of the key with most; of several such keys, of this one.
        """
        with self._changed:
            self._queues.setdefault(key, deque()).append(what)
            self._number += 1
            if most is not None and self._number > most:
                longest = max(self._queues, key=lambda one: (len(self._queues[one]), one == key))
                return self._removed(longest, self._queues[longest].pop())
            self._changed.notify()
            return None

    def end(self) -> None:
        """Record that nothing more comes."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def get(self, block: bool = True) -> Any:
        """Return what is next, and wait for it; None at the end. Raises Empty if it may not wait and nothing does."""
        with self._changed:
            if block:
                self._changed.wait_for(lambda: self._queues or self._ended)
            if not self._queues:
                if self._ended:
                    return None
                raise Empty
            key = next(iter(self._queues))
            queue = self._queues[key] = self._queues.pop(key)  # behind the others
            return self._removed(key, queue.popleft())

    def _removed(self, key: Hashable, what: Any) -> Any:
        self._number -= 1
        if not self._queues[key]:
            del self._queues[key]
        return what
