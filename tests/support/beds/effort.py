"""The effort of Python: what grows when a table grows, whatever the machine is doing meanwhile."""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

OCTETS = 64  # of memory that count as much as a line


class Effort:
    """Counts the lines of Python that run meanwhile, in functions that begin meanwhile, and the memory that they take
    at most: a sorted or copied table is one line, but all of its places are allocated."""

    def __enter__(self) -> Self:
        self.lines = 0
        self._collects = gc.isenabled()
        gc.disable()  # it would run the finalizers of what other tests have left
        tracemalloc.start()
        tracemalloc.reset_peak()
        self._before = tracemalloc.get_traced_memory()[0]
        sys.settrace(self._trace)
        return self

    def _trace(self, _: FrameType, event: str, __: Any) -> Callable[..., Any]:
        self.lines += event == "line"
        return self._trace

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        if self._collects:
            gc.enable()
        self.octets = tracemalloc.get_traced_memory()[1] - self._before
        tracemalloc.stop()

    @property
    def count(self) -> float:
        return self.lines + self.octets / OCTETS
