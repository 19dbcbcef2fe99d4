"""When a child that died is started again: a pure function of its history and the time.

Every death takes one step, every second of service takes one step back, so that a child which dies at
start-up is throttled while one that is killed now and then is replaced at once. The first step costs
nothing, the second 0.1 s, and each further one twice as much up to 10 s; up to half a second only for one
that had served, be it for a moment: its clients wait, and to start it costs little. For a child that no
client waits for, the exporter or the recorder, there is no such bound, and only a long service forgives.
Service counts from readiness: a slow start is no service.
"""

import math
from collections.abc import Sequence

import msgspec

FIRST_DELAY = 0.1
LONGEST_DELAY = 10.0
LONGEST_OF_SERVING = 0.5  # with the start, clients are served within a second
FORGIVEN_AFTER = 30.0  # a child that served this long starts with a clean sheet whatever went before
FULL_SECONDS = 60.0  # between two deaths of one kind that are told with their traceback or stack
CRASHES = frozenset({"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"})  # ends in native code: they leave a stack
HISTORY = 64  # lives worth remembering: more of them than there are steps


class Life(msgspec.Struct, frozen=True):
    """One generation of a child, in seconds of a monotonic clock; `ready` is None if it never served."""

    born: float
    ready: float | None
    died: float

    @property
    def served(self) -> float:
        return 0.0 if self.ready is None else max(0.0, self.died - self.ready)


def restart_delay(history: Sequence[Life], now: float, *, awaited: bool = True) -> float:
    """Seconds from `now` until the next generation may start; 0.0 if it may start at once. ``awaited``:
    clients wait for it."""
    if not history:
        return 0.0
    last = history[-1]
    longest = LONGEST_OF_SERVING if awaited and last.ready is not None else LONGEST_DELAY
    return max(0.0, last.died + min(_delay(_steps(history, awaited)), longest) - now)


def deaths_in_a_row(history: Sequence[Life]) -> int:
    """How many of the last lives, without a long one among them, ended in a death."""
    count = 0
    for life in reversed(history):
        if life.served >= FORGIVEN_AFTER:
            break
        count += 1
    return count


def _steps(history: Sequence[Life], awaited: bool) -> int:
    steps = 0.0
    for life in history:
        forgiven = life.served if awaited else 0.0
        steps = 0.0 if life.served >= FORGIVEN_AFTER else max(0.0, steps - forgiven)
        steps = min(steps + 1.0, _MOST_STEPS)
    return math.ceil(steps)


def _delay(steps: int) -> float:
    if steps <= 1:
        return 0.0
    return min(FIRST_DELAY * 2.0 ** (steps - 2), LONGEST_DELAY)


_MOST_STEPS = 2.0 + math.ceil(math.log2(LONGEST_DELAY / FIRST_DELAY))
