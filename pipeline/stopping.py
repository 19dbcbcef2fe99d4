"""SIGTERM and SIGINT end a run or a stream in good order: Spark's jobs end, and what is half made is removed."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """What a signal does: it calls ``cancel`` and raises ``KeyboardInterrupt``. Further signals do nothing."""

    def __init__(self) -> None:
        self.told = 0  # the signal
        self.cancel: Callable[[], Any] = lambda: None

    def listen(self) -> None:
        """Take the signals; Spark's own handler takes them away when it starts."""
        for one in SIGNALS:
            signal.signal(one, signal.SIG_IGN if self.told else self._take)

    def _take(self, number: int, _: object) -> None:
        self.told = number
        self.listen()
        try:
            self.cancel()
        finally:
            raise KeyboardInterrupt


@contextmanager
def until_stopped() -> Iterator[Stop]:
    """Take the signals, and end without an error after one, whatever comes of it: Java may get it, too, and die."""
    former = {one: signal.getsignal(one) for one in SIGNALS}
    stop = Stop()
    stop.listen()
    try:
        yield stop
    except BaseException:
        if not stop.told:
            raise
    finally:
        for one, handler in former.items():
            signal.signal(one, handler)
