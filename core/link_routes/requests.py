"""Requests for far ends of link-route pairs: how many a peer has to answer at once, and who waits for a turn.

    new --the peer has few to answer--> sent --the peer answers, or is lost--> over
    new --it has many--> waits --its turn--> sent
    waits --its first end detaches--> over
    sent --its first end detaches--> sent: it counts for its connection until the peer answers

A broker may answer late or never, while a client attaches and detaches again and again. So a peer has few requests to
answer at once. Connections take turns with the others, and each has a share of both. Behind a router there may be many
brokers, of which one that answers nothing holds up no other one: a router has so many for each link route. What waits
is bounded for each peer and for all together, and whoever has it leaves as much to others.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from core.link_routes.routes import Host, Route
from core.links.base import Base
from core.links.connections import Hop
from core.links.terminus import EDGE, INTER_ROUTER, TOO_MANY
from shm.contract.payloads import Attach, ConnectionOpened, Error

WINDOW: Final = 1024  # of a broker, or a link route beyond a router: requests that are to be answered at once
SHARE: Final = WINDOW // 4  # of one connection
ROUTERS_SHARE: Final = WINDOW // 2  # of one to another router, where a client of that one has its own share
MOST: Final = 65_536  # weights to one peer that are sent or wait: its connection has no room for more links
MOST_IN_ALL: Final = 2 * MOST  # the same to all peers: one that answers nothing leaves as much to all others as it has
# What a router may have of this for each that it leaves: many clients are behind it, and come back at once after a
# restart, 30,000 to each of three brokers, say. Any other connection leaves as much as it has.
ROUTERS_PART: Final = 3
WEIGHT_OCTETS: Final = 1024  # a request counts as a further one for so many octets
PORTION: Final = 4  # requests to a lost peer that are refused before others have their turn: some 0.1 ms
SLOW_NS: Final = 10_000_000_000  # a peer that has answered nothing for so long is complained of

Name = tuple[int, int, int]  # worker, index and generation of a link
Origin = tuple[int, int, int]  # worker, index and generation of a connection
# Who is to answer beyond a router, as far as this one knows: the brokers of a link route, by its key. An edge router
# does not know the route, so it is those of one client. None: the peer itself, which is a broker.
Beyond = str | Origin | None


class Pending(msgspec.Struct):
    """An attach that waits for its far end."""

    request: int
    worker: int
    attach: Attach  # without its termini
    address: str  # as management shows it
    route: Route | None  # of the broker at the far end; None: the far end is a router
    tenant: str  # of the first end's addresses
    lasts: bool  # the terminus is to outlive its connection
    record: tuple[int, bytes]  # the request as a control record; without octets once it is sent
    weight: int
    origin: "Near"
    sent: bool = False
    cancelled: bool = False  # the first end is gone
    closes: bool = True  # the far end of a cancelled one, when it is there, or only detaches it

    @property
    def name(self) -> Name:
        return self.worker, self.attach.link, self.attach.generation

    @property
    def far(self) -> Host:
        """The far end's connection."""
        return self.origin.window.peer.host


class Peer(msgspec.Struct):
    """A connection whose peer is asked for far ends."""

    host: Host
    name: str
    count: int = 0  # weights, also of those that wait
    counts: Counter[Origin] = msgspec.field(default_factory=Counter)  # the same, of each connection
    windows: dict[Beyond, "Window"] = {}
    gone: bool = False  # its connection: nothing more is sent


class Window(msgspec.Struct):
    """The requests to one ``peer`` that the same brokers are to answer."""

    peer: Peer
    beyond: Beyond
    since: int  # nanoseconds: the last answer, or the first request that waits for it
    unanswered: int = 0  # weights
    nears: dict[Origin, "Near"] = {}
    turns: OrderedDict[Origin, "Near"] = msgspec.field(default_factory=OrderedDict)  # those with waiting requests


class Near(msgspec.Struct):
    """A connection whose peer attaches, with its requests of one ``window``."""

    origin: Origin
    window: Window
    share: int
    part: int  # of all requests, for each that it leaves
    unanswered: int = 0  # weights
    count: int = 0  # weights, also of those that wait
    waiting: OrderedDict[int, Pending] = msgspec.field(default_factory=OrderedDict)  # by request


class Requests:
    """The requests to all peers."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._peers: dict[Host, Peer] = {}
        self._count = 0  # weights, also of those that wait
        self._counts: Counter[Origin] = Counter()  # the same, of each connection
        self._lost: OrderedDict[int, Pending] = OrderedDict()  # to peers of dead workers, by request
        self._going: deque[Iterator[Pending | None]] = deque()  # what waits for each peer that is gone, in steps

    def near(self, worker: int, connection: ConnectionOpened, path: Hop, beyond: Beyond) -> Near:
        """Return the place of a connection's requests to a peer."""
        host = path[0], path[1].connection
        peer = self._peers.get(host) or Peer(host, path[1].container)
        window = peer.windows.get(beyond) or Window(peer, beyond, self._base.forwarder.now)
        origin = worker, connection.connection, connection.generation
        share, part = (ROUTERS_SHARE, ROUTERS_PART) if connection.role in (INTER_ROUTER, EDGE) else (SHARE, 1)
        return window.nears.get(origin) or Near(origin, window, share, part)

    def add(self, pending: Pending) -> Error | None:
        """Send a request to its peer, or let it wait for its turn. Return an error if there are too many."""
        near = pending.origin
        window = near.window
        peer = window.peer
        own = peer.counts[near.origin], self._counts[near.origin]
        if own[0] + pending.weight > MOST - peer.count:
            return _too_many(f"{peer.name} answers", f"{peer.count} KiB wait for it", own[0], "of this connection")
        left, all_wait = MOST_IN_ALL - self._count, f"{self._count} KiB wait for all of them"
        if own[1] + pending.weight > near.part * left:
            return _too_many("brokers answer", all_wait, own[1], "of this connection")
        if peer.count + pending.weight > left:
            return _too_many("brokers answer", all_wait, peer.count, f"for {peer.name}")
        self._peers[peer.host] = peer
        peer.windows[window.beyond] = window
        window.nears[near.origin] = near
        self._count += pending.weight
        self._counts[near.origin] += pending.weight
        peer.count += pending.weight
        peer.counts[near.origin] += pending.weight
        near.count += pending.weight
        near.waiting[pending.request] = pending
        window.turns[near.origin] = near
        self._send(window)
        if not pending.sent and self._base.forwarder.now - window.since > SLOW_NS:
            self._base.complain(peer.name, "answers no attaches of link routes, so that further ones wait")
        return None

    def _send(self, window: Window) -> None:
        """Send the requests of those who have their turn, as long as few are to be answered."""
        while window.unanswered < WINDOW and not window.peer.gone:
            # few use up their shares, so that the first one who does not is found soon
            near = next((near for near in window.turns.values() if near.unanswered < near.share), None)
            if near is None:
                return
            _, pending = near.waiting.popitem(last=False)
            window.turns.move_to_end(near.origin)
            self._waits_no_more(near)
            if not window.unanswered:
                window.since = self._base.forwarder.now
            near.unanswered += pending.weight
            window.unanswered += pending.weight
            pending.sent = True
            self._base.forwarder.post_control(window.peer.host[0], *pending.record)
            pending.record = (pending.record[0], b"")

    def _waits_no_more(self, near: Near) -> None:
        if not near.waiting:
            near.window.turns.pop(near.origin, None)

    def over(self, pending: Pending) -> None:
        """Take a request whose peer has answered, or one that nobody wants any more. Others have their turn."""
        near = pending.origin
        window = near.window
        self._lost.pop(pending.request, None)
        if pending.sent:
            near.unanswered -= pending.weight
            window.unanswered -= pending.weight
            window.since = self._base.forwarder.now
        else:
            near.waiting.pop(pending.request, None)
            self._waits_no_more(near)
        near.count -= pending.weight
        self._counts_no_more(near, pending.weight)
        self._send(window)

    def _counts_no_more(self, near: Near, weight: int) -> None:
        window, peer = near.window, near.window.peer
        self._count -= weight
        peer.count -= weight
        for counts in (self._counts, peer.counts):
            counts[near.origin] -= weight
            if not counts[near.origin]:
                del counts[near.origin]
        if near.count:
            return
        window.nears.pop(near.origin, None)
        if not window.nears:
            peer.windows.pop(window.beyond, None)
        if not peer.windows and self._peers.get(peer.host) is peer:
            del self._peers[peer.host]

    def closed(self, worker: int, connection: int) -> None:
        """Lose what waits for a connection that is gone, in the coming turns. Its worker refuses what was sent."""
        if (peer := self._peers.pop((worker, connection), None)) is not None:
            peer.gone = True
            self._going.append(self._waiting(peer))

    def forget_worker(self, worker: int, pending: Iterable[Pending]) -> None:
        """Lose all ``pending`` requests to the peers of a dead worker."""
        for host in [host for host in self._peers if host[0] == worker]:
            self.closed(*host)
        self._lost |= {one.request: one for one in pending if one.far[0] == worker}

    @property
    def restless(self) -> bool:
        """Whether `lost` has requests that are still to be refused."""
        return bool(self._lost or self._going)

    def lost(self) -> list[Pending]:
        """Return a portion of the requests to peers that are gone. They are over."""
        portion = list(islice(self._lost.values(), PORTION))
        for pending in portion:
            self.over(pending)
        left = PORTION - len(portion)
        while left and self._going:
            steps = list(islice(self._going[0], left))
            left -= len(steps)
            portion += [one for one in steps if one is not None]
            if left:
                self._going.popleft()
        return portion

    def _waiting(self, peer: Peer) -> Iterator[Pending | None]:
        """End what waits for a peer that is gone: a request, or what has none, in each step."""
        while peer.windows:
            _, window = peer.windows.popitem()
            while window.turns:
                near = next(iter(window.turns.values()))
                pending = next(iter(near.waiting.values()))
                self.over(pending)
                yield pending
            yield None


def _too_many(who: str, waits: str, part: int, whose: str) -> Error:
    return Error(
        TOO_MANY, f"{who} too slowly: attaches of {waits}, {part} KiB {whose} (each rounded up); attach again later"
    )
