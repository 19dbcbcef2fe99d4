"""Announces the edge router's link routes beyond the uplink.

For each route with a broker here, the interior router is asked for a link route to this connection (CREATE of
``router.connection.linkRoute``), and to delete it when the last broker is gone (DELETE).

    wanted --CREATE--> requested --201--> made --gone here--> DELETE sent --204, 404--> forgotten
    requested --gone here--> made --> DELETE at once
    requested --refused--> logged, and not requested again on this uplink while its broker stays
    any --the uplink is lost--> wanted, if still here: the interior router forgets it with the connection
"""

import logging
from collections import OrderedDict
from typing import Final

import msgspec

from core.edge import orders
from core.edge.place import MANAGEMENT, Complain
from core.interior.message import BadMessageError
from core.link_routes.routes import OUTWARD
from core.links.base import Base
from shm.contract.failures import failures

LOGGER = logging.getLogger("ROUTER_CORE")

ORDERED_AT: Final = f"_local/{MANAGEMENT}"
REPLIES: Final = "_$qd.edge_management_replies"
CREATED: Final = 201
GONE: Final = (204, 404)
PATIENCE_NS: Final = 10_000_000_000
PORTION: Final = 2  # routes that are requested, or looked at, before others have their turn: some 0.1 ms


class Proxy(msgspec.Struct):
    """A link route of this router as the interior router has it."""

    key: str
    wanted: bool = True  # it has a broker here
    identity: str = ""  # given by the interior router; empty: it has none
    order: str = ""  # the correlation id of the unanswered request
    since: int = 0  # nanoseconds
    refused: bool = False  # by the interior router
    uplink: int = 0  # the number of the uplink that identity, order and refusal are of

    @property
    def pattern(self) -> str:
        return f"{self.key[1:]}/#" if self.key[0] in "CD" else self.key[1:]


class RouteProxies:
    """All link routes of this router that have a broker."""

    def __init__(self, base: Base, complain: Complain) -> None:
        self._local = base.local
        self._complain = complain
        self._me = base.me
        self._reply_to = f"amqp:/_edge/{base.me.router_id}/{REPLIES}"
        self._proxies: dict[str, Proxy] = {}  # by key
        self._orders: OrderedDict[str, Proxy] = OrderedDict()  # by correlation id, oldest first
        self._unchecked: list[Proxy] = []  # those that have not been looked at since the uplink changed
        self._open = False
        self._uplink = 0  # how many have ended
        self._number = 0
        self._now = 0
        base.local.listen(f"_local/{REPLIES}", self._replied)

    def offer(self, key: str, there: bool) -> None:
        """Record that a route has its first broker or lost its last one."""
        proxy = self._proxies.get(key)
        if proxy is None:
            if not there:
                return
            proxy = self._proxies[key] = Proxy(key)
        proxy.wanted = there
        self._check(proxy)

    def begin(self) -> None:
        """Start sending requests over the uplink."""
        self._open = True
        self._unchecked = list(self._proxies.values())

    def end(self) -> None:
        """Stop sending requests. The interior router forgets all routes of the connection."""
        self._open = False
        self._orders.clear()
        self._uplink += 1
        self._unchecked = list(self._proxies.values())

    @property
    def restless(self) -> bool:
        """Whether a step has left routes to the next one."""
        return bool(self._unchecked)

    def step(self, now: int) -> None:
        """Look at a portion of the routes after a change of the uplink, and of the requests without an answer.

        A request is repeated after ten seconds. ``now`` is in nanoseconds.
        """
        self._now = now
        for _ in range(min(PORTION, len(self._unchecked))):
            proxy = self._unchecked.pop()
            if self._proxies.get(proxy.key) is proxy:
                self._contain(proxy)
        for _ in range(PORTION):
            if not self._orders or now - next(iter(self._orders.values())).since <= PATIENCE_NS:
                return
            _, proxy = self._orders.popitem(last=False)
            proxy.order = ""
            self._contain(proxy)

    def _contain(self, proxy: Proxy) -> None:
        """Check a route. After a failure the route is left as if the interior router had refused it."""
        try:
            self._check(proxy)
        except Exception as error:  # one route must not end everybody's messages
            self._orders.pop(proxy.order, None)
            proxy.order, proxy.refused = "", True
            then = "the interior router is not asked again until the uplink or the broker changes"
            failures.tell(f"announcing link route {proxy.key} beyond the uplink", error, then)

    def _check(self, proxy: Proxy) -> None:
        """Request or delete a route so that the interior router has what is wanted."""
        if proxy.uplink != self._uplink:  # the interior router forgot the route with that connection
            proxy.uplink = self._uplink
            proxy.identity = proxy.order = ""
            proxy.refused = False
        if proxy.order:
            return
        if not proxy.wanted and not proxy.identity:
            del self._proxies[proxy.key]
        elif self._open and proxy.wanted and not proxy.identity and not proxy.refused:
            name = f"{self._me.router_id}/proxyLinkRoute/{proxy.key}"
            direction = "out" if proxy.key[0] in OUTWARD else "in"
            self._order(proxy, orders.create(self._to(proxy), name, proxy.pattern, direction))
        elif self._open and not proxy.wanted:
            self._order(proxy, orders.delete(self._to(proxy), proxy.identity))

    def _to(self, proxy: Proxy) -> orders.Envelope:
        self._number += 1
        proxy.order = f"route-{self._number}"
        return orders.Envelope(self._reply_to, proxy.order)

    def _order(self, proxy: Proxy, content: bytes) -> None:
        proxy.since = self._now
        self._orders[proxy.order] = proxy
        self._local.send(ORDERED_AT, content)

    def _replied(self, content: bytes, _: int) -> None:
        try:
            reply = orders.replied(content)
        except BadMessageError as error:
            self._complain("sent an unreadable answer about a link route: ", str(error))
            return
        proxy = self._orders.pop(reply.correlation, None)
        if proxy is None:
            return
        proxy.order = ""
        if reply.status == CREATED and reply.identity:
            proxy.identity = reply.identity
            LOGGER.info("link route %s is announced beyond the uplink", proxy.key)
        elif reply.status in GONE and proxy.identity:
            proxy.identity = ""
        else:
            what = f"{proxy.key}: {reply.status} {reply.text}"
            self._complain("refused to announce a link route: ", what)
            proxy.identity, proxy.refused = "", True  # until the uplink or the broker changes
        self._check(proxy)
