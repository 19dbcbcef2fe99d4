"""The search for cyclic garbage stands still while other threads than the core's have much to do.

It looks at the objects that have come lately, or at all there are, and holds the interpreter lock meanwhile:
with ten thousand links for one millisecond, or for thirty, in which the core can take no control record.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_busy = 0


@contextmanager
def still() -> Iterator[None]:
    """No collection while anybody is in here."""
    global _busy  # noqa: PLW0603  there is one collector in a process
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
