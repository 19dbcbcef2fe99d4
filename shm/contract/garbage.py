"""Disables Python's cyclic garbage collector while background threads work.

A collection holds the interpreter lock: with ten thousand links for 1 ms, a full one for 30 ms. The core
takes no control record in that time.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_busy = 0


@contextmanager
def still() -> Iterator[None]:
    """Suspend collection until the last thread has left this context."""
    global _busy  # noqa: PLW0603  one collector serves the whole process
    with _lock:
        _busy += 1
        gc.disable()
    try:
        yield
    finally:
        with _lock:
            _busy -= 1
            if not _busy:
                gc.enable()
