"""SIGTERM and SIGINT end a run or a stream in good order: Java ends, and then what is half made is removed."""

import logging
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
PATIENCE_S: Final = 10.0  # with a cluster that is to end its jobs
INTERRUPTED: Final = "KeyboardInterrupt while sending command."  # py4j says so, with a traceback


class Stop:
    """What a signal does: it raises ``KeyboardInterrupt``. Further signals do nothing.

    It comes in the middle of anything, a call to Java included, and such calls are not reentrant: it makes none.
    """

    def __init__(self) -> None:
        self.told = 0  # the signal

    def listen(self) -> None:
        """Take the signals; Spark's own handler takes them away when it starts."""
        for one in SIGNALS:
            signal.signal(one, signal.SIG_IGN if self.told else self._take)

    def _take(self, number: int, _: object) -> None:
        self.told = number
        self.listen()
        raise KeyboardInterrupt


@contextmanager
def until_stopped() -> Iterator[Stop]:
    """Take the signals, and end without an error after one, whatever comes of it: Java may get it, too, and die."""
    former = {one: signal.getsignal(one) for one in SIGNALS}
    stop = Stop()
    stop.listen()
    logging.root.addFilter(_unexpected)
    try:
        yield stop
    except BaseException:
        if not stop.told:
            raise
    finally:
        logging.root.removeFilter(_unexpected)
        for one, handler in former.items():
            signal.signal(one, handler)


def _unexpected(record: logging.LogRecord) -> bool:
    return record.msg != INTERRUPTED


@contextmanager
def ending(spark: Any) -> Iterator[None]:
    """End Spark if what it does is interrupted: only then nothing writes any more, and what it wrote can be removed."""
    try:
        yield
    except KeyboardInterrupt:
        end(spark)
        raise


def end(spark: Any) -> None:
    """End Spark and its Java, whatever they do.

    The interrupted thread may have left a call to Java without its answer, which the next one would take for its own:
    a thread of its own has a connection of its own. On this machine Java has all of Spark in it.
    """
    context = spark.sparkContext
    java = getattr(context._gateway, "proc", None)
    if java is None or not str(context.master).startswith("local"):
        aside = ThreadPoolExecutor(1)
        with suppress(Exception):  # it may be dead, or take longer
            aside.submit(_stop, spark).result(PATIENCE_S)
        aside.shutdown(wait=False)
    if java is not None:
        java.kill()
        java.wait()


def _stop(spark: Any) -> None:
    spark.sparkContext.cancelAllJobs()
    spark.stop()
