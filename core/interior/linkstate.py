"""LSR and LSU: a router requests another's neighbours and costs, and sends its own."""

from typing import Any, Final, Self

import msgspec

from core.interior.message import AREA, BadMessageError, Fields, encode, is_router, router_address

REQUEST: Final = "LSR"
UPDATE: Final = "LSU"
VERSION: Final = 1
# A router has at most as many neighbours as there are other routers.
MOST_PEERS: Final = 127
LARGEST_COST: Final = 2**31 - 1


class LinkStateRequest(msgspec.Struct, frozen=True):
    """A router's request for this router's link state."""

    router: str
    version: int = VERSION

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Decode a body. Raises BadMessageError."""
        return cls(fields.router(), fields.number("pv", 0))

    def encode(self, to: str) -> bytes:
        """Encode the message to the requested router."""
        body = {"id": self.router, "pv": self.version, "area": AREA}
        return encode(router_address(to), REQUEST, body)


class LinkStateUpdate(msgspec.Struct, frozen=True):
    """A router's neighbours with the costs of the links to them."""

    router: str
    instance: int
    ls_seq: int
    peers: dict[str, int]
    version: int = VERSION

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Decode a body. Raises BadMessageError."""
        router = fields.router()
        state = Fields(fields.mapping("ls"))
        if state.router() != router:
            raise BadMessageError("its link state is another router's")
        return cls(
            router,
            fields.number("instance", 0),
            state.number("ls_seq"),
            _peers(state.mapping("peers"), router),
            fields.number("pv", 0),
        )

    def encode(self, to: str) -> bytes:
        """Encode the message to an address."""
        state = {"id": self.router, "area": AREA, "ls_seq": self.ls_seq, "peers": self.peers}
        body = {"id": self.router, "pv": self.version, "area": AREA, "instance": self.instance}
        return encode(to, UPDATE, body | {"ls_seq": self.ls_seq, "ls": state})


def _peers(peers: dict[Any, Any], router: str) -> dict[str, int]:
    if len(peers) > MOST_PEERS:
        raise BadMessageError(f"it has more than {MOST_PEERS} peers")
    for peer, cost in peers.items():
        if not is_router(peer) or peer == router:
            raise BadMessageError("one of its peers is not the id of another router")
        if type(cost) is not int or not 0 < cost <= LARGEST_COST:
            raise BadMessageError("the cost of one of its peers is no positive number")
    return peers
