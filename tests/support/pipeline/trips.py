"""Records of messages that pass several routers, made by hand."""

from datetime import datetime
from typing import Any

from pipeline.flow_log.records import FLOW


def record(message: int, at: datetime, router: str, path: str, onward: str | None, ms: int = 1) -> dict[str, Any]:
    """A record of a message that a router sent onward, or to a client."""
    none, ns = dict.fromkeys(FLOW.names), ms * 1_000_000
    return none | {
        "ts": at, "router_id": router, "boot_id": "b", "path": path, "msg_id_hash": message, "n_deliveries": 1,
        "sample_weight": 1, "latency_ns": ns, "queue_ns": ns, "mtype": -1, "outcome": "accepted",
        "egress_kind": "inter_router" if onward else "normal", "peer_container": onward or "client",
    }  # fmt: skip


def copy(at: datetime, router: str, peer: str, number: int | None, message: int | None, **more: Any) -> dict[str, Any]:
    """A copy that a route table of a router sent to a peer: an endpoint, or a router."""
    onward = peer if peer.startswith("R") else None
    made = record(message or 0, at, router, router, onward) | {"msg_id_hash": message, "message_number": number}
    made |= {"peer_container": peer, "mtype": 3001, "sub_id": -1, "egress_conn_id": 1, "ingress_kind": "normal"}
    return made | {"address": "ric"} | more


def arrived(at: datetime, message: int, endpoint: str, **more: Any) -> dict[str, Any]:
    """A copy at the second router, which has no key any more: it goes to the endpoint's own address."""
    made = copy(at, "R2", "a client", 1000 + message, message, address=f"ric/{endpoint}", ingress_kind="inter_router")
    return made | {"path": "R1>R2", "mtype": -1} | more
