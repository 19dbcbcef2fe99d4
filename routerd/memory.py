"""The supervisor's hold on the router's shared memory: made, reset after a core's death, removed."""

import os
from typing import Final

from shm.segment import Segments, create, segment_prefix
from shm.stats import COUNTERS

_OF_THE_LIVING: Final = tuple(
    COUNTERS[name][0] for name in ("connections", "links", "accepting", "unsettled", "paused")
)
_OF_THE_CORE: Final = tuple(COUNTERS[name][0] for name in ("addresses", "overflow", "live_deliveries"))


class SharedMemory:
    """All segments of this router. Raises `shm.segment.SegmentError` where they cannot be made."""

    def __init__(self, router_id: str, workers: int, arena_mib: int) -> None:
        self.prefix = segment_prefix(router_id, os.getpid())
        self._workers = workers
        self._arena_mib = arena_mib
        self._segments = self._create()

    def reset(self) -> None:
        """Make everything ready for a new core; no child may use a ring or a block now."""
        page = self._segments.core_stats()
        page.own(0, page.generation)
        for counter in _OF_THE_CORE:
            page.set(counter, 0)
        self._segments.reset()

    def wake_core(self) -> None:
        """Let the core look at its control socket: it may sleep on its semaphore, which no poll can watch."""
        self._segments.semaphore.release()

    def heartbeat(self, slot: int) -> int:
        """The turns that a worker's loop, or for slot `workers` the core's, has made."""
        core = slot == self._workers
        return (self._segments.core_stats() if core else self._segments.worker_stats(slot)).heartbeat

    def connections(self) -> int:
        """Open connections of all workers."""
        number = COUNTERS["connections"][0]
        return sum(self._segments.worker_stats(i).get(number) for i in range(self._workers))

    def worker_gone(self, index: int) -> None:
        """A dead worker has no connections and takes none, whatever it last wrote: the others count on it."""
        page = self._segments.worker_stats(index)
        page.own(0, page.generation)
        for counter in _OF_THE_LIVING:
            page.set(counter, 0)

    def close(self) -> None:
        """Remove everything."""
        self._segments.close()

    def _create(self) -> Segments:
        segments = create(self.prefix, self._workers, self._arena_mib)
        segments.supervisor_stats().own(os.getpid(), 1)
        return segments
