"""What the core does when a worker has died, and when workers have outlived its predecessor.

A dead worker's published actions are handled first. Then the core removes its links, settles deliveries on
their way to it as modified (delivery-failed), marks the blocks that others still read and empties its rings.

Workers that outlive a core present their connections and links to the next one. A message that one worker
passes on before the others have presented their receivers would be released. No worker passes on any until
all have presented or died.
"""

import logging
from collections.abc import Callable
from typing import Final

from core.links.base import Base
from shm.contract.control import WorkerAdded, WorkerGone, WorkerReclaimed
from shm.contract.numbers import counted
from shm.contract.payloads import Presented

LOGGER = logging.getLogger("ROUTER_CORE")

PATIENCE_NS: Final = 10_000_000_000  # for a running worker that presents nothing; a hung one is killed sooner


class Recovery:
    """Reclaims what dead workers held, once per generation, and waits for workers that present their links."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._forwarder = base.forwarder
        self._reclaimed: dict[int, int] = {}  # worker -> generation
        self._awaited = set(base.setup.presenting)
        self._presented: set[int] = set()  # presented, and not yet told to continue
        self._late_at = 0  # when the core stops waiting for missing workers; 0: not set

    def worker_gone(self, gone: WorkerGone, drain: Callable[[int], None]) -> WorkerReclaimed:
        """Reclaim a dead worker's links, connections and blocks. ``drain`` handles its published actions.

        A generation that is already reclaimed is only confirmed, because its successor may be running.
        """
        if self._reclaimed.get(gone.index, -1) < gone.generation:
            drain(gone.index)
            if gone.removed:
                self._forwarder.empty_place(gone.index)
            else:
                self._forwarder.reclaim(gone.index)
            links = self._base.links.forget_worker(gone.index)
            connections = self._base.connections.forget_worker(gone.index)
            self._reclaimed[gone.index] = gone.generation
            what = "worker %d generation %d reclaimed: %s, %s"
            LOGGER.info(what, gone.index, gone.generation, counted(connections, "connection"), counted(links, "link"))
        elif gone.removed:
            self._forwarder.empty_place(gone.index)  # its successor never started
        self._presented.discard(gone.index)
        self._awaited.discard(gone.index)
        self._go_on()
        return WorkerReclaimed(gone.index, gone.generation)

    def worker_added(self, added: WorkerAdded) -> WorkerReclaimed:
        """Make an empty place ready for a new worker."""
        self._forwarder.fill_place(added.index)
        LOGGER.info("worker %d added", added.index)
        return WorkerReclaimed(added.index, added.generation)

    def presented(self, worker: int) -> None:
        """A worker has presented all its connections and links."""
        self._awaited.discard(worker)
        self._presented.add(worker)
        self._go_on()

    def step(self, now: int) -> None:
        """Stop waiting for workers that have not presented within ten seconds of the first step."""
        if not self._awaited:
            return
        self._late_at = self._late_at or now + PATIENCE_NS
        if now >= self._late_at:
            late = ", ".join(str(worker) for worker in sorted(self._awaited))
            LOGGER.warning("worker %s did not present its links in time; the others do not wait for it", late)
            self._awaited.clear()
            self._go_on()

    def _go_on(self) -> None:
        """Let the presented workers send once no worker is missing."""
        while self._presented and not self._awaited:
            self._base.post(self._presented.pop(), Presented())
