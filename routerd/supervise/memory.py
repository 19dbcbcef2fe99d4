"""The router's shared memory, which the supervisor creates, resets after a core's death, and removes."""

import logging
import os
import time
from mmap import mmap
from typing import Final

from routerd.log.log import event
from routerd.machine.allowance import memory_limit, too_little
from shm.contract.failures import failures
from shm.contract.roles import Role
from shm.memory.flight import segment_bytes
from shm.memory.journal import Journal, journal_of
from shm.memory.segment import create, segment_prefix
from shm.statistics.stats import COUNTERS

LOGGER = logging.getLogger("SERVER")

_OF_THE_LIVING: Final = tuple(
    COUNTERS[name].place for name in ("connections", "links", "accepting", "unsettled", "paused")
)
_OF_THE_CORE: Final = tuple(COUNTERS[name].place for name in ("addresses", "overflow", "live_deliveries"))


class SharedMemory:
    """All segments of this router. Raises `shm.memory.segment.SegmentError` if they cannot be created."""

    def __init__(
        self, router_id: str, workers: int, arena_mib: int, places: int | None = None, records: int = 0
    ) -> None:
        self.prefix = segment_prefix(router_id, os.getpid())
        if why := too_little(workers, arena_mib, memory_limit(), segment_bytes(records)):
            LOGGER.warning(why)
        self._places = places or workers
        self._segments = create(self.prefix, workers, arena_mib, places, records)
        self._segments.supervisor_stats().own(os.getpid(), 1)
        self.configuration_read(taken=True)
        failures.count_in(self._segments.supervisor_stats())

    def reset(self) -> None:
        """Empty rings and arenas for a new core; no child may use a ring or a block now."""
        page = self._segments.core_stats()
        page.own(0, page.generation)
        for counter in _OF_THE_CORE:
            page.set(counter, 0)
        self._segments.reset()
        for index in range(*self._segments.counts()):
            self._segments.give_back(index)

    def mend(self) -> None:
        """Write again what a process that starts must find, whatever one that went mad has written there."""
        self._segments.mend()

    @property
    def flight(self) -> mmap | None:
        """The flight recorder's ring, or None without one."""
        return self._segments.flight

    def beat(self) -> None:
        """Publish that the supervisor's loop has made a turn."""
        self._segments.supervisor_stats().beat()

    def wake_core(self) -> None:
        """Make the core read its control socket: it may sleep on its semaphore, which no poll can watch."""
        self._segments.semaphore.release()

    def heartbeat(self, slot: int) -> int:
        """Return the turns that a worker's loop, or for slot `places` the core's, has made."""
        core = slot == self._places
        return (self._segments.core_stats() if core else self._segments.worker_stats(slot)).heartbeat

    def recorder_heartbeat(self) -> int:
        """Return the turns that the recorder's loop has made."""
        return self._segments.recorder_stats().heartbeat

    def connections(self) -> int:
        """Return the number of open connections of all workers."""
        number = COUNTERS["connections"].place
        return sum(self._segments.worker_stats(i).get(number) for i in range(self._segments.workers))

    def worker_gone(self, index: int) -> None:
        """Clear a dead worker's connections and readiness on its statistics page, which other workers rely on."""
        page = self._segments.worker_stats(index)
        page.own(0, page.generation)
        for counter in _OF_THE_LIVING:
            page.set(counter, 0)

    def recorder_gone(self) -> None:
        """Show on the recorder's statistics page that there is none, and that none is missing."""
        page = self._segments.recorder_stats()
        page.own(0, page.generation)

    def set_certificate_expiry(self, seconds: int) -> None:
        """Publish when the first of the router's certificates expires, in seconds since 1970; 0: there is none."""
        self._segments.supervisor_stats().set(COUNTERS["certificate_expiry"].place, seconds)

    def configuration_read(self, taken: bool) -> None:
        """Publish whether the configuration that was just read is in use."""
        page, reads = self._segments.supervisor_stats(), COUNTERS["config_reads"].place
        page.set(COUNTERS["config_taken"].place, int(taken))
        if taken:
            page.set(COUNTERS["config_time"].place, int(time.monotonic()))
        page.set(reads, page.get(reads) + 1)  # last: `routerd reload` waits for it

    def set_workers(self, count: int) -> None:
        """Publish the number of workers."""
        for error in self._segments.set_workers(count):
            event(LOGGER, logging.WARNING, f"{error}: the router could end at the core's death, when it clears them")

    def empty(self, index: int) -> None:
        """Return the memory of an arena without an owner to the system, except blocks that others still read."""
        self._segments.give_back(index)

    def journal(self) -> Journal:
        """Return the supervisor's journal."""
        return journal_of(self._segments.control, self._segments.places, Role.SUPERVISOR)

    def close(self) -> None:
        """Remove all segments."""
        failures.count_in(None)
        self._segments.close()
