"""The network as this router knows it: its own links, the link states of others and the paths through them.

Paths follow every change at once, since messages are lost without them. Valid origins need a tree from every
router and keep multicast from arriving twice; they follow with a pause in between.
"""

import logging
from collections.abc import Callable
from typing import Final

from core.interior import paths
from core.interior.linkstate import LinkStateUpdate
from core.interior.neighbours import Neighbour
from core.interior.nodes import MOST_ROUTERS, UNREACHABLE, Node, Nodes
from core.interior.port import Port
from shm.contract.complaints import Complaints, bursts
from shm.contract.routing import NetworkSetup

LOGGER = logging.getLogger("ROUTER_LS")

# Shortest interval between computations of valid origins, in seconds; smaller networks wait less than this.
ORIGINS_INTERVAL: Final = 1.0
# seconds without link state and mention by others after which a router is forgotten
UNREFERENCED: Final = 3.0
MOST_SAID: Final = 10
MOST_REASONS: Final = 3
_NOT_YET: Final = float("-inf")


class Topology:
    """Link states, and the tables that follow from them."""

    def __init__(self, me: str, settings: NetworkSetup, port: Port, complaints: Complaints) -> None:
        self._me = me
        self._settings = settings
        self._port = port
        self._complaints = complaints
        self._lines = bursts()
        self.nodes = Nodes(port)
        self.ls_seq = 0
        self.peers: dict[str, int] = {}
        self.last_change = 0
        self.changed_at = _NOT_YET
        # ids of routers whose link state is missing or old
        self.wanted: set[str] = set()
        # called with a router whose addresses are no longer valid
        self.on_flush: Callable[[Node], None] = lambda node: None
        self._own_changed = False
        self._changed = False
        self._reasons: dict[str, None] = {}  # why paths may have changed, in the order of events
        self._in_flux = False
        self._origins_stale = False
        self._origins_at = _NOT_YET
        self._swept_at = _NOT_YET
        self._radius = 0

    def learn(self, router: str, now: float, heard: bool = True) -> Node | None:
        """Return the node of a router, made if it is new, or None if there are too many.

        ``heard`` means that the router itself has spoken.
        """
        node = self.nodes.get(router)
        if node is None:
            node = self.nodes.add(router, now)
            if node is None and heard and (hearsay := self.nodes.hearsay()):
                self._forget(hearsay, "gave way to one that was heard directly")
                node = self.nodes.add(router, now)
            if node is None:
                what = f"has more than {MOST_ROUTERS} other interior routers, the limit; it ignores router "
                self._complaints.tell(now, LOGGER, logging.ERROR, "the network %s%s", what, router)
                return None
            self.wanted.add(router)
            # There was no room when they told. If they only tell it again, nothing else calls for new paths.
            if not self._changed and any(router in other.peers for other in self.nodes):
                self._change(f"router {router} has found room")
            LOGGER.debug("router %s is now known by bit %d", router, node.bit)
        node.heard = node.heard or heard
        return node

    def _forget(self, node: Node, why: str) -> None:
        self.on_flush(node)
        self.wanted.discard(node.router)
        self.nodes.remove(node)
        LOGGER.debug("router %s was forgotten: it %s", node.router, why)

    def restarted(self, node: Node, instance: int, now: float) -> None:
        """Note a router's instance. A changed one invalidates its state."""
        if node.instance == instance:
            return
        first = node.instance is None
        node.former_instance, node.instance = node.instance, instance
        if first:
            return
        node.born = now
        node.forget_state()
        self.wanted.add(node.router)
        self._change(f"router {node.router} restarted")
        self.on_flush(node)
        self._lines.tell(now, LOGGER, logging.INFO, "router %s restarted", node.router)

    def _change(self, reason: str) -> None:
        self._changed = True
        self._reasons[reason] = None

    def set_link(self, node: Node, neighbour: Neighbour | None) -> None:
        """Set the connection to use to a neighbour, or None if the router is no neighbour."""
        if node.link is not neighbour:
            if neighbour is None:
                self._port.remove_link(node.bit)
            else:
                self._port.set_link(node.bit, neighbour.number)
            node.link = neighbour
        cost = None if neighbour is None else neighbour.cost
        if self.peers.get(node.router) == cost:
            return
        if cost is None:
            del self.peers[node.router]
        else:
            self.peers[node.router] = cost
            if not node.ls_seq:
                self.wanted.add(node.router)
        self._own_changed = True

    def set_state(self, node: Node, ls_seq: int, peers: dict[str, int], now: float) -> None:
        """Apply a router's newer link state."""
        node.ls_seq = ls_seq
        node.seen = now
        # Even unchanged links count as a change, because they were missing for a moment.
        self._in_flux = True
        if node.peers != peers:
            node.peers = peers
            self._change(f"router {node.router} has other links")
        for peer in peers:
            if peer != self._me:
                self.learn(peer, now, heard=False)

    def own_state(self, instance: int) -> LinkStateUpdate:
        """Return this router's link state."""
        return LinkStateUpdate(self._me, instance, self.ls_seq, dict(self.peers))

    def states(self, instance: int) -> list[LinkStateUpdate]:
        """Return all known link states, this router's last.

        With the others a path back is known when they arrive.
        """
        known = [
            LinkStateUpdate(node.router, node.instance, node.ls_seq, node.peers)
            for node in self.nodes
            if node.instance is not None and node.ls_seq
        ]
        return [*known, self.own_state(instance)]

    def tick(self, now: float) -> bool:
        """Apply the time and all changes. Return True if this router's own links changed."""
        if now - self._swept_at >= 1.0:
            self._swept_at = now
            self._expire(now)
        own, self._own_changed = self._own_changed, False
        if own:
            self.ls_seq += 1
            names = (name if cost == 1 else f"{name} at cost {cost}" for name, cost in sorted(self.peers.items()))
            what = f"neighbours are now {', '.join(names) or 'none'}"
            self._lines.tell(now, LOGGER, logging.INFO, "%s", what, key="neighbours")
            self._reasons[what] = None
        if own or self._changed or self._in_flux:
            self.last_change = round(now)
            self.changed_at = now
        if own or self._changed:
            self._compute(now)
        self._changed = self._in_flux = False
        self._reasons.clear()
        if self._origins_stale and self._origins_due(now):
            self._compute(now)
        return own

    def _origins_due(self, now: float) -> bool:
        share = len(self.nodes) / MOST_ROUTERS
        return now - self._origins_at >= ORIGINS_INTERVAL * share * share

    def _expire(self, now: float) -> None:
        for node in self.nodes:
            if node.peers and now - node.seen > self._settings.remote_ls_max_age_seconds:
                node.forget_state()
                self._change(f"router {node.router} has been silent for too long")
                LOGGER.info("the links of router %s are unknown because it has been silent for too long", node.router)
        mentioned = set(self.peers).union(*(node.peers for node in self.nodes))
        for node in list(self.nodes):
            if node.peers or node.router in mentioned:
                node.unreferenced_since = None
            elif node.unreferenced_since is None:
                node.unreferenced_since = now
            elif now - node.unreferenced_since >= UNREFERENCED:
                self._forget(node, "has no known links")
        for node in self.nodes:
            since = node.unreachable_since
            if since is not None and now - since >= self._settings.unreachable_holdoff_seconds:
                node.unreachable_since = None
                self.on_flush(node)

    def _compute(self, now: float) -> None:
        # A router may name many others for which there is no room, and no path to them can be used.
        known = self.nodes.names() | {self._me}
        states = {
            node.router: {peer: cost for peer, cost in node.peers.items() if peer in known} for node in self.nodes
        }
        states[self._me] = self.peers
        graph = paths.Graph(states)
        routes = paths.routes(graph, self._me)
        origins = None
        if self._origins_due(now):
            self._origins_at = now
            origins = paths.valid_origins(graph, self._me, routes.paths)
        self._origins_stale = origins is None
        if routes.radius != self._radius:
            self._radius = routes.radius
            self._port.set_radius(routes.radius)
        changed = []
        for node in self.nodes:
            path = routes.paths.get(node.router)
            valid = node.origins if origins is None else origins.get(node.router, frozenset())
            if self._set_path(node, path, valid, now):
                changed.append(node)
        if changed:
            self._lines.tell(now, LOGGER, logging.INFO, "%s", _paths(changed, list(self._reasons)), key="paths")

    def _set_path(self, node: Node, path: paths.Route | None, origins: frozenset[str], now: float) -> bool:
        """Set the path to a router. Return True if its next hop or cost has changed."""
        next_hop = "" if path is None else path.next_hop
        cost = 0 if path is None else path.cost
        other = (next_hop, cost) != (node.next_hop, node.cost)
        if next_hop != node.next_hop:
            node.unreachable_since = None if next_hop else now
        elif cost == node.cost and origins == node.origins:
            return False
        node.next_hop, node.cost, node.origins = next_hop, cost, origins if next_hop else frozenset()
        bits = (self.nodes.get(origin) for origin in node.origins)
        hop = self.nodes.get(next_hop)
        self._port.set_path(
            node.bit,
            UNREACHABLE if hop is None else hop.bit,
            cost,
            frozenset(origin.bit for origin in bits if origin is not None),
        )
        return other


def _paths(changed: list[Node], reasons: list[str]) -> str:
    """Return changed paths as one line, with the reasons."""
    lines = [
        f"{node.router} by {node.next_hop} at cost {node.cost}" if node.reachable else f"{node.router} not at all"
        for node in changed[:MOST_SAID]
    ]
    more = f" and {len(changed) - MOST_SAID} more" if len(changed) > MOST_SAID else ""
    why = "; ".join(reasons[:MOST_REASONS]) + (" and more" if len(reasons) > MOST_REASONS else "")
    return f"paths changed: {', '.join(lines)}{more} ({why})"
