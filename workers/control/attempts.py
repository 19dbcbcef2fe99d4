"""When a worker's attempts to connect begin, and the lookups of names for them, of which few run at a time.

    waiting --due--> looking up --addresses--> the owner connects
                        ^
      queued -----------+  a name, while as many lookups have a thread as may

Nothing here blocks: threads look up names (lookup.py).
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import islice
from typing import Final, Generic, TypeVar

from workers.control.lookup import POLL_SECONDS, Lookup, is_address

LOOKUPS_MOST: Final = 32  # names that are looked up at a time, by a thread each


class Attempt(ABC):
    """What is connected again and again: when its next attempt is due, or the lookup of the one that goes on."""

    due: float | None = None  # None: no attempt waits
    lookup: Lookup | None = None

    @property
    @abstractmethod
    def asked(self) -> tuple[str, str, str]:
        """Host, port, and family, which may be empty."""


One = TypeVar("One", bound=Attempt)


class Attempts(ABC, Generic[One]):
    """What its subclass connects, one attempt after the other.

    ``clock`` returns monotonic seconds. In a step, ``portion`` attempts begin and as many lookups end before messages
    have their turn.
    """

    def __init__(self, clock: Callable[[], float], look_up: Callable[[str, str, str], Lookup], portion: int) -> None:
        self._clock = clock
        self._look_up = look_up
        self._portion = portion
        self._waiting: list[tuple[float, int, One]] = []  # a heap; what is not due then any more is skipped
        self._planned = 0
        self._looking: dict[One, None] = {}  # those whose hosts are being looked up
        self._left: list[Lookup] = []  # those whose owners have given up, and whose threads have not ended
        self._queued: deque[One] = deque()  # names that wait for a thread; addresses need none
        self._stopped = False

    @abstractmethod
    def _found(self, one: One, lookup: Lookup) -> None:
        """Connect to what a lookup has found."""

    def _plan(self, one: One, due: float) -> None:
        """Let an attempt begin at this time."""
        one.due = due
        self._planned += 1
        heappush(self._waiting, (due, self._planned, one))

    def _give_up(self, one: One) -> None:
        """Let no attempt begin, and take no notice of what is looked up."""
        if one.lookup is not None:
            self._left.append(one.lookup)
        one.due = one.lookup = None
        self._looking.pop(one, None)

    def stop(self) -> None:
        """Open no more connections; open ones stay until they are closed."""
        self._stopped = True

    def wait(self, at_most: float) -> float:
        """Return the seconds until `step` has something to do, at most ``at_most``."""
        if self._stopped:
            return at_most
        if self._looking or self._queued:
            at_most = min(at_most, POLL_SECONDS)
        if self._waiting:
            at_most = min(at_most, max(0.0, self._waiting[0][0] - self._clock()))
        return at_most

    def step(self) -> None:
        """Begin attempts that are due, and tell of lookups that have ended, a portion of each."""
        if self._stopped:
            return
        now = self._clock()
        ended = (one for one in self._looking if one.lookup is not None and one.lookup.done)
        for one in list(islice(ended, self._portion)):
            self._over(one)
        self._left = [lookup for lookup in self._left if not lookup.done]
        while self._queued and self._has_thread():
            if (one := self._queued.popleft()).due is not None:
                self._look(one)
        for _ in range(self._portion):
            if not self._waiting or self._waiting[0][0] > now:
                return
            due, _, one = heappop(self._waiting)
            if one.due != due:
                continue
            if self._has_thread() or is_address(one.asked[0]):
                self._look(one)
            else:
                self._queued.append(one)

    def _has_thread(self) -> bool:
        """Whether another name may be looked up."""
        return len(self._looking) + len(self._left) < LOOKUPS_MOST

    def _look(self, one: One) -> None:
        """Begin an attempt."""
        one.due = None
        one.lookup = self._look_up(*one.asked)
        self._looking[one] = None
        if one.lookup.done:
            self._over(one)

    def _over(self, one: One) -> None:
        lookup, one.lookup = one.lookup, None
        del self._looking[one]
        assert lookup is not None, "it was looked up"
        self._found(one, lookup)
