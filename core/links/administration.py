"""Who may manage: what the right of a connection means for its links, and what is an agent's address.

The agent judges operations by the link that a request came on, whatever way it came. What is bound for the
agent of another router comes to our own first if the connection it came on may not manage all: that agent
passes on what only reads. So a request is judged where it enters the network, and no message costs more.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from core.addresses.addresses import Addresses, Identity, in_space
from core.forwarder.forward import Agents, Forwarder
from core.links.link import Link
from core.links.terminus import EDGE
from core.management.agent_address import AGENT, is_agent, is_foreign
from shm.contract.administering import ALL, NONE
from shm.contract.payloads import Attach, ConnectionOpened, Error

OWN: Final = ("L$management", "M0$management")  # keys of our agent's addresses
NOBODY: Final = Error(
    "amqp:unauthorized-access", "this connection may not manage the router: its right is none"
)

Key = tuple[int, int, int]  # worker, index and generation of a link
Find = Callable[[int, int], ConnectionOpened | None]


class Administration:
    """Judges links by the rights of their connections. ``find``: the connection of a worker and index."""

    def __init__(self, forwarder: Forwarder, me: Identity, find: Find) -> None:
        self._agents = Agents(forwarder)
        self._me = me
        self.find = find
        self._led: dict[Key, str] = {}  # the foreign agents that links are for
        self._next: tuple[Key, str] | None = None  # the link that is being attached, if it is such a one

    def serve(self, addresses: Addresses) -> None:
        """There is an agent here now."""
        self._agents.serve(addresses.resolve(AGENT).handle)

    def judge(
        self, worker: int, attach: Attach, opened: ConnectionOpened | None
    ) -> tuple[Attach, Error | None]:
        """An attach as it is to be served: one for a foreign agent leads to our own; and why not."""
        if opened is None or opened.management == ALL or not attach.address:
            return attach, None
        text = in_space(attach.address, opened.tenant, self._me)
        if not is_agent(text):
            return attach, None
        if opened.management == NONE and opened.role != EDGE:
            return attach, NOBODY  # an edge router hears why from the agent, and goes on
        if attach.outgoing or not is_foreign(text, self._me.area, self._me.router_id):
            return attach, None
        self._next = (worker, attach.link, attach.generation), text
        return msgspec.structs.replace(attach, address=AGENT), None

    def led(self, link: Link, to: bytes, opened: ConnectionOpened) -> str:
        """The foreign agent that a message ``to`` an agent, from a link, is for; empty: it is for ours."""
        if opened.management == ALL:
            return ""
        text = self._led.get((link.worker, link.link, link.generation), "")
        if not text and (link.address is None or link.address.key not in OWN):
            text = in_space(to.decode("utf-8", "surrogateescape"), opened.tenant, self._me)
        return text if is_agent(text) and is_foreign(text, self._me.area, self._me.router_id) else ""

    def attached(self, link: Link) -> None:
        """Bound what comes on a link whose connection may not manage all."""
        key = link.worker, link.link, link.generation
        if self._next is not None and self._next[0] == key:
            self._led[key] = self._next[1]
        self._next = None
        opened = self.find(link.worker, link.connection)
        if opened is not None and opened.management != ALL and not link.outgoing:
            self._agents.bound(*key)

    def detached(self, link: Link) -> None:
        """A link has gone."""
        self._led.pop((link.worker, link.link, link.generation), None)
