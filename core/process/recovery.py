"""What the core does when a worker has died, and when workers have outlived the core before it.

What the worker published counts: it is handled first. Then its links go, deliveries on their way to it are
settled modified (delivery-failed), blocks that others still read are marked, and its rings are left empty.

Workers that have outlived a core present their connections and links to the next one. What one of them passes
on before the others have told of the receivers would be released: so none does before all have presented, or
are gone.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from core.forwarder.forward import Forwarder
from core.links.connections import Connections
from core.links.links import Links
from shm.contract.control import WorkerAdded, WorkerGone, WorkerReclaimed
from shm.contract.payloads import C_PRESENTED, Presented

LOGGER = logging.getLogger("ROUTER_CORE")

PATIENCE_NS: Final = (
    10_000_000_000  # for a worker that turns, but presents nothing; one that hangs is killed sooner
)


class Recovery:
    """Takes back what dead workers held, once per generation; waits for those that are ``presenting``."""

    def __init__(
        self, forwarder: Forwarder, links: Links, connections: Connections, presenting: Iterable[int]
    ) -> None:
        self._forwarder = forwarder
        self._links = links
        self._connections = connections
        self._reclaimed: dict[int, int] = {}  # worker -> generation
        self._awaited = set(presenting)
        self._presented: set[int] = set()  # and not told to go on yet
        self._late_at = 0  # when the others go on without those that are awaited; 0: not begun

    def worker_gone(self, gone: WorkerGone, drain: Callable[[int], None]) -> WorkerReclaimed:
        """``drain`` handles all of a worker's published actions.

        A generation already reclaimed is only confirmed: its successor may be at work.
        """
        if self._reclaimed.get(gone.index, -1) < gone.generation:
            drain(gone.index)
            if gone.removed:
                self._forwarder.empty_place(gone.index)
            else:
                self._forwarder.reclaim(gone.index)
            links = self._links.forget_worker(gone.index)
            connections = self._connections.forget_worker(gone.index)
            self._reclaimed[gone.index] = gone.generation
            LOGGER.info(
                "worker %d generation %d reclaimed: %d connections, %d links",
                gone.index,
                gone.generation,
                connections,
                links,
            )
        elif gone.removed:
            self._forwarder.empty_place(gone.index)  # it was to have a successor, which never started
        self._presented.discard(gone.index)
        self._awaited.discard(gone.index)
        self._go_on()
        return WorkerReclaimed(gone.index, gone.generation)

    def worker_added(self, added: WorkerAdded) -> WorkerReclaimed:
        """Make an empty place ready."""
        self._forwarder.fill_place(added.index)
        LOGGER.info("worker %d is added", added.index)
        return WorkerReclaimed(added.index, added.generation)

    def presented(self, worker: int) -> None:
        """All connections and links of a worker are known."""
        self._awaited.discard(worker)
        self._presented.add(worker)
        self._go_on()

    def step(self, now: int) -> None:
        """Wait for nobody for ever."""
        if not self._awaited:
            return
        self._late_at = self._late_at or now + PATIENCE_NS
        if now >= self._late_at:
            late = ", ".join(str(worker) for worker in sorted(self._awaited))
            LOGGER.warning("not all links are known: nothing was heard of worker %s; the others go on", late)
            self._awaited.clear()
            self._go_on()

    def _go_on(self) -> None:
        """Let messages flow, if everybody is known for whom they may be."""
        while self._presented and not self._awaited:
            payload = msgspec.msgpack.encode(Presented())
            self._forwarder.post_control(self._presented.pop(), C_PRESENTED, payload)
