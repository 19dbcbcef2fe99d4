"""Links for streams: the core opens one when a stream waits and keeps it for a while.

Each connection to a router that offers streaming links may have some, whichever side dialled it: between
interior routers, and between edge and interior routers.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from core.addresses.addresses import FALLBACK, mobile_text
from core.forwarder.recorded import StreamLinks
from core.links.base import Base
from core.links.plane import Plane
from core.links.terminus import NO_ROOM, credit_of
from shm.contract.payloads import Attach, ConnectionOpened, Detach, LinkRefused
from shm.native import STREAM_SESSIONS

if TYPE_CHECKING:
    from core.links.link import Link

STREAMING: Final = "qd.streaming-links"  # capability of a connection
MOST: Final = 1000  # streaming links per connection; further streams wait
IDLE: Final = 128  # idle links kept per connection
TRIMMED: Final = 10  # surplus links closed at a time
TRIM_NS: Final = 30_000_000_000
STEP_NS: Final = 1_000_000_000


class Pool(msgspec.Struct):
    """The streaming links of one connection. ``may`` returns whether one may be opened now."""

    handle: int  # of the forwarder
    worker: int
    opened: ConnectionOpened
    capabilities: list[str]
    may: Callable[[], bool]
    asked: set[int] = msgspec.field(default_factory=set)  # pending link requests


class Streams(Plane):
    """All connections that have streaming links."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._forwarder = base.forwarder
        self._links = StreamLinks(base.forwarder)
        self._pools: dict[int, Pool] = {}  # by handle
        self._by_request: dict[int, Pool] = {}
        self._stepped = self._trimmed = 0

    def begin(self, worker: int, opened: ConnectionOpened, capabilities: list[str], may: Callable[[], bool]) -> int:
        """Return the handle of a new connection's streaming links, or 0 if its router does not offer any."""
        if STREAMING not in opened.offered:
            return 0
        handle = self._links.open()
        self._pools[handle] = Pool(handle, worker, opened, capabilities, may)
        return handle

    def end(self, handle: int) -> None:
        """Forget a connection that is gone. Its links were detached before."""
        pool = self._pools.pop(handle, None)
        if pool is None:
            return
        for request in pool.asked:
            del self._by_request[request]
        self._links.close(handle)

    def asked(self, attach: Attach) -> bool:
        """Whether an attach answers a request of this plane."""
        return attach.request in self._by_request

    def refused(self, refused: LinkRefused) -> None:
        """Drop the request for a link that the peer refused or whose connection is gone."""
        pool = self._by_request.pop(refused.request, None)
        if pool is not None:
            pool.asked.discard(refused.request)

    def add(self, worker: int, attach: Attach) -> bool:
        """Enter a requested link in the forwarder's table. Return False if the table is full."""
        pool = self._by_request.pop(attach.request)
        pool.asked.discard(attach.request)
        capacity = credit_of(attach).capacity
        if self._links.add_link(pool.handle, worker, attach.link, attach.generation, capacity):
            return True
        self._forwarder.bad()
        self._base.post(pool.worker, Detach(attach.link, attach.generation, NO_ROOM))
        return False

    def serve(self, handle: int, link: "Link") -> None:
        """Send streams for an edge connection's outgoing link over streaming links, with its address.

        A fallback destination is left out: its address is that of the destination that it replaces.
        """
        address = link.address
        if not handle or not link.outgoing or address is None or address.key[:2] == f"M{FALLBACK}":
            return
        if address.key[0] == "M":
            text = mobile_text(address.key).encode("utf-8", "surrogateescape")
            self._forwarder.set_text(address.handle, text)
        self._links.use(handle, link.worker, link.link, link.generation)

    def step(self, now: int) -> None:
        """Open links that could not be opened at once, and close surplus ones. ``now`` is in nanoseconds."""
        if now - self._stepped < STEP_NS:
            return
        self._stepped = now
        for pool in self._pools.values():
            self._keep(pool)
        if now - self._trimmed > TRIM_NS:
            self._trimmed = now
            for pool in self._pools.values():
                self._trim(pool)
        self._forwarder.publish()

    def work(self) -> None:
        """Open links for the streams that wait for one."""
        if self._links.thirsty():
            for pool in self._pools.values():
                self._keep(pool)

    def _keep(self, pool: Pool) -> None:
        total, _, waiting = self._links.state(pool.handle)
        wanted = min(waiting - len(pool.asked), MOST - total)
        if wanted <= 0 or not pool.may():
            return
        for _ in range(wanted):
            request = self._base.names.request()
            pool.asked.add(request)
            self._by_request[request] = pool
            terms = {"source_capabilities": pool.capabilities, "target_capabilities": pool.capabilities}
            session = STREAM_SESSIONS + request  # one session each, so that a full window stops no other stream
            self._base.open_link(pool.worker, pool.opened, request, True, session=session, **terms)

    def _trim(self, pool: Pool) -> None:
        for link, generation in self._links.surplus(pool.handle, IDLE, TRIMMED):
            self._base.post(pool.worker, Detach(link, generation))
