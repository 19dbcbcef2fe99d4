"""The edge router's link routes, made known beyond the uplink.

For each route that has a broker here the interior router is asked for one to this connection (CREATE of
``router.connection.linkRoute``), and to take it back when the last broker is gone (DELETE).

    wanted --asked--> asked --201--> made --gone here--> asked to be deleted --204, 404--> forgotten
    asked --gone here--> made --> at once asked to be deleted
    asked --refused--> told in the log, and not asked again on this uplink as long as its broker is there
    any --the uplink is lost--> wanted, if still there: what is beyond is forgotten with the connection
"""

import logging
from typing import Final

import msgspec

from core.addresses.addresses import Identity
from core.edge import orders
from core.edge.place import MANAGEMENT, Complain
from core.interior.message import BadMessageError
from core.link_routes.routes import OUTWARD
from core.links.local import Local

LOGGER = logging.getLogger("ROUTER_CORE")

ORDERED_AT: Final = f"_local/{MANAGEMENT}"
REPLIES: Final = "_$qd.edge_management_replies"
CREATED: Final = 201
GONE: Final = (204, 404)
PATIENCE_NS: Final = 10_000_000_000


class Proxy(msgspec.Struct):
    """A route of this router's as the interior router has it."""

    key: str
    wanted: bool = True  # it has a broker here
    identity: str = ""  # what the interior router calls it; empty: it does not have it
    order: str = ""  # correlation id of what it has been asked and has not answered
    since: int = 0  # nanoseconds
    refused: bool = False  # the interior router has said that it will not have it

    @property
    def pattern(self) -> str:
        return f"{self.key[1:]}/#" if self.key[0] in "CD" else self.key[1:]


class RouteProxies:
    """All link routes of this router that have a broker."""

    def __init__(self, local: Local, me: Identity, complain: Complain) -> None:
        self._local = local
        self._complain = complain
        self._me = me
        self._reply_to = f"amqp:/_edge/{me.router_id}/{REPLIES}"
        self._proxies: dict[str, Proxy] = {}  # by key
        self._orders: dict[str, Proxy] = {}  # by correlation id
        self._open = False
        self._number = 0
        self._now = 0
        local.listen(f"_local/{REPLIES}", self._replied)

    def offer(self, key: str, there: bool) -> None:
        """A route has a broker now, or has none any more."""
        proxy = self._proxies.get(key)
        if proxy is None:
            if not there:
                return
            proxy = self._proxies[key] = Proxy(key)
        proxy.wanted = there
        self._check(proxy)

    def begin(self) -> None:
        """The uplink takes orders."""
        self._open = True
        for proxy in list(self._proxies.values()):
            self._check(proxy)

    def end(self) -> None:
        """It does no more, and all is forgotten there."""
        self._open = False
        self._orders.clear()
        for proxy in list(self._proxies.values()):
            proxy.identity = proxy.order = ""
            proxy.refused = False
            self._check(proxy)

    def step(self, now: int) -> None:
        """Order again what was not answered."""
        self._now = now
        for number, proxy in list(self._orders.items()):
            if now - proxy.since > PATIENCE_NS:
                del self._orders[number]
                proxy.order = ""
                self._check(proxy)

    def _check(self, proxy: Proxy) -> None:
        """Have it there if it is wanted, and not otherwise."""
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
            self._complain("answered about a link route what cannot be read: ", str(error))
            return
        proxy = self._orders.pop(reply.correlation, None)
        if proxy is None:
            return
        proxy.order = ""
        if reply.status == CREATED and reply.identity:
            proxy.identity = reply.identity
            LOGGER.info("link route %s is known beyond the uplink", proxy.key)
        elif reply.status in GONE and proxy.identity:
            proxy.identity = ""
        else:
            what = f"{proxy.key}: {reply.status} {reply.text}"
            self._complain("does not make a link route known: ", what)
            proxy.identity, proxy.refused = "", True  # until the uplink is another one, or its broker
        self._check(proxy)
