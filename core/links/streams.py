"""Links for messages that are still coming in: opened when one waits, kept while they may be wanted again.

Each connection to a router that knows such links may have some, whoever has dialled it: to other interior
routers, to edge routers, and from those to their interior router.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from core.addresses.addresses import FALLBACK, mobile_text
from core.addresses.names import Names
from core.forwarder.forward import Forwarder, StreamLinks
from core.links.terminus import NO_ROOM
from core.process.plane import Plane
from shm.contract.payloads import (
    C_DETACH,
    C_OPEN_LINK,
    Attach,
    ConnectionOpened,
    Detach,
    LinkRefused,
    OpenLink,
)

if TYPE_CHECKING:
    from core.links.link import Link

STREAMING: Final = "qd.streaming-links"  # capability of a connection
MOST: Final = 1000  # at once on one connection; further ones wait
IDLE: Final = 128  # idle links that are kept
TRIMMED: Final = 10  # of those beyond, how many are closed at a time
TRIM_NS: Final = 30_000_000_000
STEP_NS: Final = 1_000_000_000
FIRST_SESSION: Final = 11  # those before are for the links of each priority


class Pool(msgspec.Struct):
    """The links of one connection. ``may``: whether one may be opened now."""

    handle: int  # the forwarder's
    worker: int
    opened: ConnectionOpened
    capabilities: list[str]
    may: Callable[[], bool]
    asked: set[int] = msgspec.field(default_factory=set)  # requests under way


class Streams(Plane):
    """All connections with such links."""

    def __init__(self, forwarder: Forwarder, names: Names) -> None:
        self._forwarder = forwarder
        self._links = StreamLinks(forwarder)
        self._names = names
        self._pools: dict[int, Pool] = {}  # by handle
        self._by_request: dict[int, Pool] = {}
        self._stepped = self._trimmed = 0
        self._encode = msgspec.msgpack.Encoder().encode

    def begin(
        self, worker: int, opened: ConnectionOpened, capabilities: list[str], may: Callable[[], bool]
    ) -> int:
        """A connection to a router is there: the handle of its links; 0: it knows none."""
        if STREAMING not in opened.offered:
            return 0
        handle = self._links.open()
        self._pools[handle] = Pool(handle, worker, opened, capabilities, may)
        return handle

    def end(self, handle: int) -> None:
        """The connection is gone; its links were detached before."""
        pool = self._pools.pop(handle, None)
        if pool is None:
            return
        for request in pool.asked:
            del self._by_request[request]
        self._links.close(handle)

    def asked(self, attach: Attach) -> bool:
        """Whether a link is one that was asked for here."""
        return attach.request in self._by_request

    def refused(self, refused: LinkRefused) -> None:
        """The peer would not have a link, or the connection is gone."""
        pool = self._by_request.pop(refused.request, None)
        if pool is not None:
            pool.asked.discard(refused.request)

    def add(self, worker: int, attach: Attach) -> bool:
        """Put a link that was asked for into the forwarder's table. False: there is no place for it."""
        pool = self._by_request.pop(attach.request)
        pool.asked.discard(attach.request)
        capacity = max(1, attach.capacity)
        if self._links.add_link(pool.handle, worker, attach.link, attach.generation, capacity):
            return True
        self._forwarder.bad()
        self._post(pool, C_DETACH, Detach(attach.link, attach.generation, NO_ROOM))
        return False

    def serve(self, handle: int, link: "Link") -> None:
        """Let streams for an edge connection's outgoing link go over links of their own, with its address.

        Not those for a fallback destination: its address is that of what it falls back for.
        """
        address = link.address
        if not handle or not link.outgoing or address is None or address.key[:2] == f"M{FALLBACK}":
            return
        if address.key[0] == "M":
            text = mobile_text(address.key).encode("utf-8", "surrogateescape")
            self._forwarder.set_text(address.handle, text)
        self._links.use(handle, link.worker, link.link, link.generation)

    def step(self, now: int) -> None:
        """Open links that could not be opened at once, and close what nobody needs."""
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
        opened = pool.opened
        for _ in range(wanted):
            request = self._names.request()
            pool.asked.add(request)
            self._by_request[request] = pool
            link = OpenLink(
                opened.connection,
                opened.generation,
                request,
                f"qdlink.{self._names.discriminator()}",
                True,
                None,
                None,
                FIRST_SESSION + request,  # one each: a window that is full stops nobody else
                pool.capabilities,
                pool.capabilities,
            )
            self._post(pool, C_OPEN_LINK, link)

    def _trim(self, pool: Pool) -> None:
        for link, generation in self._links.surplus(pool.handle, IDLE, TRIMMED):
            self._post(pool, C_DETACH, Detach(link, generation))

    def _post(self, pool: Pool, kind: int, payload: msgspec.Struct) -> None:
        self._forwarder.post_control(pool.worker, kind, self._encode(payload))
