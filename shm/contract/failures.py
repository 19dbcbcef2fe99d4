"""Exceptions that nobody foresaw: each is told with its traceback, counted, and ends as little as it can.

    a thread      `start_thread` tells what ends it; it begins anew if it serves for ever
    a peer's      `core.process.contained` and `workers.loop.pump` end the connection that it came on
    a process's   routerd.process tells it and exits; the supervisor starts another

The counter is `failures` of the process's statistics page (shm.stats), shown as
`routerd_unexpected_errors_total`. What fails again within a minute is counted and has a line of level debug:
no peer can flood the log.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from shm.contract.complaints import Complaints
from shm.native import StatsPage
from shm.stats import COUNTERS

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

LOGGER = logging.getLogger("SERVER")

AGAIN_SECONDS: Final = 1.0  # before a thread that has ended begins anew
FAILED: Final = COUNTERS["failures"].place


class Failures:
    """Those of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.number = 0
        self._page: StatsPage | None = None
        self._clock = clock
        self._complaints = Complaints()

    def count_in(self, page: StatsPage | None) -> None:
        """Count them in the process's statistics page, too; None: no more, as its memory goes."""
        self._page = page
        if page is not None:
            page.add(FAILED, self.number)

    def tell(self, what: str, error: BaseException, then: str) -> None:
        """``what`` has failed, and what becomes of it then."""
        self.number += 1
        if self._page is not None:
            self._page.add(FAILED)
        kind, text = (what, type(error).__name__), "%s failed: %s: %s; %s"
        self._complaints.tell(
            self._clock(), LOGGER, logging.ERROR, text, *kind, error, then, key=kind, error=error
        )


failures: Final = Failures()  # this process's


def start_thread(
    name: str, work: Callable[..., None], *given: Any, again: float | None = None
) -> threading.Thread:
    """Begin a thread that does ``work``. ``again``: it is there for ever, and begins anew after so many
    seconds when an exception has ended it; None: whoever has begun it sees that it is gone."""
    thread = threading.Thread(target=_serve, args=(name, work, given, again), name=name, daemon=True)
    thread.start()
    return thread


def _serve(name: str, work: Callable[..., None], given: tuple[Any, ...], again: float | None) -> None:
    while True:
        try:
            work(*given)
        except BaseException as error:  # SystemExit, too: a thread that ends in silence is missed by nobody
            then = "it has ended" if again is None else f"it begins anew in {again:g} s"
            failures.tell(f"thread {name}", error, then)
            if again is not None:
                time.sleep(again)
                continue
        return


def watch_process() -> None:
    """Tell of exceptions that nobody can catch: in threads of others, and where Python has no caller."""
    threading.excepthook = _ended
    sys.unraisablehook = _unraisable


def _ended(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is not None:
        name = "?" if what.thread is None else what.thread.name
        failures.tell(f"thread {name}", what.exc_value, "it has ended")


def _unraisable(what: "UnraisableHookArgs") -> None:
    if what.exc_value is not None:
        failures.tell(what.err_msg or f"{what.object!r}", what.exc_value, "nobody could catch that")
