"""Transforms: users' Python functions that a worker calls with the data of source-routed messages.

A transform is the only Python in a message's path. Its worker does nothing else while the function runs.
"""

import logging
import time
from collections.abc import Callable
from importlib import import_module

from shm.contract.complaints import Complaints

LOGGER = logging.getLogger("ROUTER")


class Transform:
    """A function from bytes to bytes, named as module:function."""

    def __init__(self, use: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._use = use
        self._clock = clock
        self._complaints = Complaints()
        self._function: Callable[[bytes], bytes] | None = None
        module, _, name = use.partition(":")
        try:
            self._function = getattr(import_module(module), name)
        except Exception as error:  # the user's module may raise anything
            LOGGER.error("transform %s cannot be used: %s: %s", use, type(error).__name__, error)

    def __call__(self, data: bytes) -> bytes | None:
        """Return the function's result; None if it fails, which is logged once a minute."""
        try:
            changed = self._function(data) if self._function is not None else None
            if isinstance(changed, bytes):
                return changed
            why = "it cannot be used" if self._function is None else f"it returned {type(changed).__name__}"
        except Exception as error:  # the user's function may raise anything
            why = f"{type(error).__name__}: {error}"
        text = "transform %s failed on a message: %s"
        self._complaints.tell(self._clock(), LOGGER, logging.WARNING, text, self._use, why)
        return None
