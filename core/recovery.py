"""What the core does when a worker has died.

What the worker published counts: it is handled first. Then its links go, deliveries on their way to it are
settled modified (delivery-failed), blocks that others still read are marked, and its rings are left empty.
"""

import logging
from collections.abc import Callable

from core.connections import Connections
from core.forward import Forwarder
from core.links import Links
from shm.control import WorkerAdded, WorkerGone, WorkerReclaimed

LOGGER = logging.getLogger("ROUTER_CORE")


class Recovery:
    """Takes back what dead workers held, once per generation."""

    def __init__(self, forwarder: Forwarder, links: Links, connections: Connections) -> None:
        self._forwarder = forwarder
        self._links = links
        self._connections = connections
        self._reclaimed: dict[int, int] = {}  # worker -> generation

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
        return WorkerReclaimed(gone.index, gone.generation)

    def worker_added(self, added: WorkerAdded) -> WorkerReclaimed:
        """Make an empty place ready."""
        self._forwarder.fill_place(added.index)
        LOGGER.info("worker %d is added", added.index)
        return WorkerReclaimed(added.index, added.generation)
