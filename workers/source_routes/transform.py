"""Transforms of source routes: functions of others, which a worker process runs on the data of messages.

The only Python on a message's way: one that passes a transform costs what its function takes, and the worker
process does nothing else meanwhile.
"""

import logging
import time
from collections.abc import Callable
from importlib import import_module
from typing import Final

LOGGER = logging.getLogger("ROUTER")

TELL_SECONDS: Final = 60.0  # failures of one function are told once in so many


class Transform:
    """A function from bytes to bytes, as module:function."""

    def __init__(self, use: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._use = use
        self._clock = clock
        self._told = -TELL_SECONDS
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
        now = self._clock()
        if now >= self._told + TELL_SECONDS:
            self._told = now
            LOGGER.warning("transform %s failed on a message: %s", self._use, why)
        return None
