"""Routers as management shows them."""

from typing import Any

from core.interior.hello import VERSION
from core.interior.message import AREA
from core.interior.nodes import Node
from core.interior.topology import Topology

SELF = "(self)"


def views(me: str, instance: int, topology: Topology) -> list[dict[str, Any]]:
    """Return all routers, this one first, the others by their bits. The keys are attributes of router.node."""
    own = {
        "id": me,
        "index": 0,
        "protocolVersion": VERSION,
        "instance": instance,
        "linkState": sorted(topology.peers),
        "costs": topology.peers,
        "nextHop": SELF,
        "validOrigins": [],
        "address": _address(me),
        "lastTopoChange": topology.last_change,
    }
    return [own, *map(_view, sorted(topology.nodes, key=lambda node: node.bit))]


def _view(node: Node) -> dict[str, Any]:
    return {
        "id": node.router,
        "index": node.bit,
        "protocolVersion": node.version,
        "instance": node.instance,
        "linkState": sorted(node.peers),
        "costs": node.peers,
        "nextHop": node.next_hop or None,
        "validOrigins": sorted(node.origins),
        "address": _address(node.router),
        "routerLink": None if node.link is None else node.link.number,
        "cost": node.cost if node.reachable else None,
    }


def _address(router: str) -> str:
    return f"amqp:/_topo/{AREA}/{router}"
