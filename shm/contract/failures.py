"""Unexpected exceptions: each is logged with its traceback, is counted, and ends as little as possible.

    in a thread       `start_thread` logs it, and restarts a thread that serves for ever
    no thread         `start_thread` logs that, too; who needs the thread tries again when it is needed next
    from a peer       `core.process.contained` and `workers.loop.pump` end the connection that caused it
    from routers      `core.interior.network_adapter` goes on with the router protocol's next step
    in a main loop    routerd.process logs it and exits; the supervisor starts another process

The counter is `failures` of the process's statistics page (shm.statistics.stats), the metric
`routerd_unexpected_errors_total`. A failure that repeats within a minute is counted and logged at level
debug only, and beyond `TRACEBACKS` in a row tracebacks are left out, so no peer can flood the log.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from shm.contract.complaints import Complaints
from shm.native import StatsPage
from shm.statistics.stats import COUNTERS

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

LOGGER = logging.getLogger("SERVER")

AGAIN_SECONDS: Final = 1.0  # pause before a failed thread restarts
TRACEBACKS: Final = 10  # in a row; more come once in
TRACEBACK_SECONDS: Final = 30.0
FAILED: Final = COUNTERS["failures"].place
NO_THREAD: Final = "raise the limit of threads (TasksMax of the unit, ulimit -u), or give the machine memory"


class Failures:
    """The unexpected exceptions of one process: their number, and the limit of their log lines."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.number = 0
        self._page: StatsPage | None = None
        self._clock = clock
        self._complaints = Complaints()
        self._tracebacks = Complaints(TRACEBACK_SECONDS, TRACEBACKS)

    def count_in(self, page: StatsPage | None) -> None:
        """Count in the process's statistics page, too; None ends that before its memory is unmapped."""
        self._page = page
        if page is not None:
            page.add(FAILED, self.number)

    def tell(self, what: str, error: BaseException, then: str) -> None:
        """Log and count that ``what`` failed with ``error``; ``then`` says what becomes of it.

        Who sees the count finds the line in the log.
        """
        try:
            self._log(what, error, then)
        finally:
            self.number += 1
            if self._page is not None:
                self._page.add(FAILED)

    def _log(self, what: str, error: BaseException, then: str) -> None:
        now, kind, text = self._clock(), (what, type(error).__name__), "%s failed: %s: %s; %s%s"
        if (swallowed := self._complaints.due(now, kind)) is None:
            LOGGER.debug(text, *kind, error, then, "")
            return
        more = f" (and {swallowed} more since the last such line)" if swallowed else ""
        shown = None if self._tracebacks.due(now, None) is None else error
        LOGGER.error(text, *kind, error, then, more, exc_info=shown)


failures: Final = Failures()


def start_thread(
    name: str, work: Callable[..., None], *given: Any, again: float | None = None
) -> threading.Thread | None:
    """Start a daemon thread that runs ``work(*given)``; return None, and log it, if the system gives no thread.

    With ``again``, a thread that an exception has ended restarts after that many seconds. Without it, the
    caller has to notice the thread's end.
    """
    thread = threading.Thread(target=_serve, args=(name, work, given, again), name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        failures.tell(f"starting thread {name}", error, NO_THREAD)
        return None
    return thread


def _serve(name: str, work: Callable[..., None], given: tuple[Any, ...], again: float | None) -> None:
    while True:
        try:
            work(*given)
        except BaseException as error:  # SystemExit, too: nobody would notice a thread that ends silently
            then = "it has ended" if again is None else f"it restarts in {again:g} s"
            failures.tell(f"thread {name}", error, then)
            if again is not None:
                time.sleep(again)
                continue
        return


def watch_process() -> None:
    """Log exceptions that no code can catch: in threads of libraries, and where Python has no caller."""
    threading.excepthook = _ended
    sys.unraisablehook = _unraisable


def _ended(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is not None:
        name = "?" if what.thread is None else what.thread.name
        failures.tell(f"thread {name}", what.exc_value, "it has ended")


def _unraisable(what: "UnraisableHookArgs") -> None:
    if what.exc_value is not None:
        failures.tell(what.err_msg or f"{what.object!r}", what.exc_value, "no code could catch it")
