"""Transforms of source routes: functions of others, which a worker process runs on the data of messages.

The only Python on a message's way: one that passes a transform costs what its function takes, and the worker
process does nothing else meanwhile.
"""

import logging
import time
from collections.abc import Callable
from importlib import import_module

from shm.contract.complaints import Complaints

LOGGER = logging.getLogger("ROUTER")


class Transform:
    """A function from bytes to bytes, as module:function."""

    def __init__(self, use: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._use = use
        self._clock = clock
        self._complaints = Complaints()
        self._function: Callable[[bytes], bytes] | None = None
        module, _, name = use.partition(":")
        try:
            self._function = getattr(import_module(module), name)
        except Exception as error:  # whatever the code of others does when it is loaded
            LOGGER.error("transform %s cannot be used: %s: %s", use, type(error).__name__, error)

    def __call__(self, data: bytes) -> bytes | None:
        """The data changed; None: it failed, which is told once in a while."""
        try:
            changed = self._function(data) if self._function is not None else None
            if isinstance(changed, bytes):
                return changed
            why = "it cannot be used" if self._function is None else f"it returned {type(changed).__name__}"
        except Exception as error:  # whatever the code of others does
            why = f"{type(error).__name__}: {error}"
        text = "transform %s failed on a message: %s"
        self._complaints.tell(self._clock(), LOGGER, logging.WARNING, text, self._use, why)
        return None
