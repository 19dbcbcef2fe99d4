"""Routers as management shows them."""

from core.interior.hello import VERSION
from core.interior.message import AREA
from core.interior.nodes import Node, NodeView
from core.interior.topology import Topology

SELF = "(self)"


def views(me: str, instance: int, topology: Topology) -> list[NodeView]:
    """All routers, this one first, the others by their bits."""
    own = NodeView(
        id=me,
        index=0,
        protocol_version=VERSION,
        instance=instance,
        link_state=sorted(topology.peers),
        next_hop=SELF,
        valid_origins=[],
        address=_address(me),
        router_link=None,
        cost=None,
        last_topo_change=topology.last_change,
    )
    return [own, *map(_view, sorted(topology.nodes, key=lambda node: node.bit))]


def _view(node: Node) -> NodeView:
    return NodeView(
        id=node.router,
        index=node.bit,
        protocol_version=node.version,
        instance=node.instance,
        link_state=sorted(node.peers),
        next_hop=node.next_hop or None,
        valid_origins=sorted(node.origins),
        address=_address(node.router),
        router_link=None if node.link is None else node.link.number,
        cost=node.cost if node.reachable else None,
    )


def _address(router: str) -> str:
    return f"amqp:/_topo/{AREA}/{router}"
