"""Messages of the core's own that wait until they can be sent, in a queue for each address."""

from collections import OrderedDict, deque
from typing import Final

import msgspec

WAITING_BYTES: Final = 4 << 20  # most octets of all messages that wait


class _Queue(msgspec.Struct):
    messages: deque[bytes] = msgspec.field(default_factory=deque)
    size: int = 0  # octets


class Waiting:
    """Queues by key. Where all octets are used, a message takes the place of the last ones of the longest queue.

    The lengths are compared in powers of two, so that no queue is looked at for the sake of another one's message.
    """

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._size = 0  # octets
        self._lengths: list[OrderedDict[str, None]] = [OrderedDict() for _ in range(WAITING_BYTES.bit_length() + 1)]

    def __len__(self) -> int:
        """Return the number of messages."""
        return sum(len(queue.messages) for queue in self._queues.values())

    def __contains__(self, key: str) -> bool:
        return key in self._queues

    def count(self, key: str) -> int:
        """Return the number of messages in a queue."""
        return len(queue.messages) if (queue := self._queues.get(key)) else 0

    def add(self, key: str, content: bytes) -> list[str]:
        """Append a message. Return the keys of those that were dropped; the last one is ``key`` if the new one was."""
        dropped: list[str] = []
        queue = self._queues.get(key, _Queue())
        length = (queue.size + len(content)).bit_length()
        while self._size + len(content) > WAITING_BYTES:
            longest = next((keys for keys in reversed(self._lengths[length + 1 :]) if keys), None)
            if longest is None:
                return [*dropped, key]
            other = next(reversed(longest))
            self._resize(other, -len(self._queues[other].messages.pop()))
            dropped.append(other)
        self._queues[key] = queue
        queue.messages.append(content)
        self._resize(key, len(content))
        return dropped

    def first(self, key: str) -> bytes | None:
        """Return the first message of a queue, or None if nothing waits there."""
        queue = self._queues.get(key)
        return queue.messages[0] if queue else None

    def remove_first(self, key: str) -> None:
        """Remove the first message of a queue that has one."""
        self._resize(key, -len(self._queues[key].messages.popleft()))

    def forget(self, key: str) -> None:
        """Remove a queue."""
        queue = self._queues[key]
        queue.messages.clear()
        self._resize(key, -queue.size)

    def _resize(self, key: str, octets: int) -> None:
        queue = self._queues[key]
        before = queue.size.bit_length()
        queue.size += octets
        self._size += octets
        after = queue.size.bit_length()
        if before != after or not queue.messages:
            self._lengths[before].pop(key, None)
            self._lengths[after][key] = None
        if not queue.messages:
            del self._lengths[after][key], self._queues[key]
