"""The links of a connection between routers, opened by a test that takes a router's place."""

from proton import Sender, symbol

from tests.support.peer import Peer

PRIORITIES = 10
CREDIT = 250
USUAL = 4  # the priority of a message that says none


def open_inter_router(peer: Peer) -> tuple[Sender, Sender]:
    """Links of control and of each priority, both ways; to send on: control, and that of usual messages."""
    control = _pair(peer, "qd.router")
    return control, [_pair(peer, "qd.router-data") for _ in range(PRIORITIES)][USUAL]


def _pair(peer: Peer, capability: str) -> Sender:
    session = peer.session()
    sender, receiver = session.sender(peer.name()), session.receiver(peer.name())
    for link in (sender, receiver):
        for terminus in (link.source, link.target):
            terminus.capabilities.put_symbol(symbol(capability))
        link.open()
    receiver.flow(CREDIT)
    return sender
