"""Decides when a dead child is started again: a pure function of its history and the time.

Each death is one step forward, each second of service one step back. A child that dies at start-up is
therefore throttled, and one that is killed now and then is replaced at once. The first step costs no delay,
the second 0.1 s, and each further one twice as much, up to 10 s. The delay of a child that had served, even
for a moment, is at most half a second, because its clients wait and its start costs little. No client waits
for the exporter or the recorder: they have no such bound, and only a long service forgives their deaths.
Service counts from readiness.
"""

import math
from collections.abc import Sequence

import msgspec

FIRST_DELAY = 0.1
LONGEST_DELAY = 10.0
LONGEST_OF_SERVING = 0.5  # including the start, clients are served within a second
FORGIVEN_AFTER = 30.0  # a child that served this long has no history
FULL_SECONDS = 60.0  # between two tracebacks or stacks of one kind of death in the log
CRASHES = frozenset({"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"})  # deaths in native code, which leave a stack
HISTORY = 64  # lives to remember: more than there are steps


class Life(msgspec.Struct, frozen=True):
    """One generation of a child, in seconds of a monotonic clock; `ready` is None if it never served."""

    born: float
    ready: float | None
    died: float

    @property
    def served(self) -> float:
        return 0.0 if self.ready is None else max(0.0, self.died - self.ready)


def restart_delay(history: Sequence[Life], now: float, *, awaited: bool = True) -> float:
    """Return the seconds from `now` until the next generation may start; `awaited`: clients wait for it."""
    if not history:
        return 0.0
    last = history[-1]
    longest = LONGEST_OF_SERVING if awaited and last.ready is not None else LONGEST_DELAY
    return max(0.0, last.died + min(_delay(_steps(history, awaited)), longest) - now)


def deaths_in_a_row(history: Sequence[Life]) -> int:
    """Return how many lives in a row ended in a death since the last long one."""
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
