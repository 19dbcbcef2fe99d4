"""Queues of the core's own messages whose first message has found no room, in a line for each length of it."""

from collections import OrderedDict
from itertools import count


class Roomless:
    """The keys of these queues, each with its place in the line, by the binary digits of a length in octets.

    Where a message finds no room, none with more digits is tried. A queue that is forgotten leaves at once, so there
    are never more keys than queues.
    """

    def __init__(self) -> None:
        self._lines: dict[int, OrderedDict[str, int]] = {}
        self._digits: dict[str, int] = {}  # of each key
        self._places = count()

    def __len__(self) -> int:
        return len(self._digits)

    def enter(self, key: str, size: int) -> None:
        """Enter a queue with its first message's octets, behind all others. One that waits already keeps its place."""
        if key not in self._digits:
            self._digits[key] = digits = size.bit_length()
            self._lines.setdefault(digits, OrderedDict())[key] = next(self._places)

    def leave(self, key: str) -> None:
        """Remove a queue; no-op if absent."""
        digits = self._digits.pop(key, None)
        if digits is not None:
            line = self._lines[digits]
            del line[key]
            if not line:
                del self._lines[digits]

    def first(self, below: int | None) -> tuple[str, int] | None:
        """Return the queue that has waited longest and its digits, of those with fewer digits than ``below``."""
        heads = [
            (next(iter(line.values())), digits)
            for digits, line in self._lines.items()
            if below is None or digits < below
        ]
        if not heads:
            return None
        _, digits = min(heads)
        return next(iter(self._lines[digits])), digits
