"""Management rights: how a connection's right limits its links, and which addresses belong to an agent.

The agent judges each operation by the link on which the request arrived. A message for another router's agent
goes to this router's agent first if its connection has a limited right, and that agent passes on only reads.
A request is thus judged where it enters the network, and messages themselves cost no more.
"""

from typing import Final

import msgspec

from core.addresses.addresses import in_space
from core.addresses.agent_address import AGENT, is_agent, is_foreign
from core.forwarder.recorded import Agents
from core.links.base import Base
from core.links.link import Link
from core.links.plane import Plane
from core.links.terminus import EDGE
from shm.contract.administering import ALL, NONE
from shm.contract.payloads import Attach, ConnectionOpened, Detach, Error

OWN: Final = ("L$management", "M0$management")  # keys of our agent's addresses
NOBODY: Final = Error("amqp:unauthorized-access", "this connection may not manage the router: its right is none")

Key = tuple[int, int, int]  # worker, index and generation of a link
MOST_DEPARTED: Final = 1000  # links whose clients stay, and whose last requests may not be read yet


class Departed(msgspec.Struct, frozen=True):
    """A detached link: its connection's number in the router, and the foreign agent that it was for."""

    link: Link
    connection: int
    led: str


class Administration(Plane):
    """Judges links by the rights of their connections."""

    def __init__(self, base: Base) -> None:
        self._agents = Agents(base.forwarder)
        self._base = base
        self._me = base.me
        self._led: dict[Key, str] = {}  # the foreign agent that each of these links is for
        self._departed: dict[Key, Departed] = {}  # oldest first
        self._next: tuple[Key, str] | None = None  # the link being attached, if it is for a foreign agent

    def serve(self) -> None:
        """Tell the forwarder that this router has an agent."""
        self._agents.serve(self._base.addresses.resolve(AGENT).handle)

    def judge(self, worker: int, attach: Attach, opened: ConnectionOpened | None) -> tuple[Attach, Error | None]:
        """Return the attach to serve, redirected to this router's agent for a foreign one, and a refusal."""
        if opened is None or opened.management == ALL or not attach.address:
            return attach, None
        text = in_space(attach.address, opened.tenant, self._me)
        if not is_agent(text):
            return attach, None
        if opened.management == NONE and opened.role != EDGE:
            return attach, NOBODY  # an edge router learns the reason from the agent and stays attached
        if attach.outgoing or not is_foreign(text, self._me.area, self._me.router_id):
            return attach, None
        self._next = (worker, attach.link, attach.generation), text
        return msgspec.structs.replace(attach, address=AGENT), None

    def led(self, link: Link, to: bytes, opened: ConnectionOpened) -> str:
        """Return the foreign agent that a message with ``to`` is for, or "" for this router's agent."""
        if opened.management == ALL:
            return ""
        key = link.worker, link.link, link.generation
        departed = self._departed.get(key)
        text = self._led.get(key, "") if departed is None else departed.led
        if not text and (link.address is None or link.address.key not in OWN):
            text = in_space(to.decode("utf-8", "surrogateescape"), opened.tenant, self._me)
        return text if is_agent(text) and is_foreign(text, self._me.area, self._me.router_id) else ""

    def attached(self, link: Link) -> None:
        """Mark a link as limited if its connection may not manage everything."""
        key = link.worker, link.link, link.generation
        if self._next is not None and self._next[0] == key:
            self._led[key] = self._next[1]
        self._next = None
        self._departed.pop(key, None)  # of a dead worker, whose successor has begun anew with its names
        opened = self._base.connections.find(link.worker, link.connection)
        if opened is not None and opened.management != ALL and not link.outgoing:
            self._agents.bound(*key)

    def detached(self, link: Link, detach: Detach | None) -> None:
        key = link.worker, link.link, link.generation
        led = self._led.pop(key, "")
        opened = self._base.connections.find(link.worker, link.connection)
        if opened is None or link.outgoing or not (link.address is None or link.address.key in OWN):
            return
        self._departed[key] = Departed(link, opened.number, led)
        if len(self._departed) > MOST_DEPARTED:
            del self._departed[next(iter(self._departed))]

    def departed(self, worker: int, link: int, generation: int) -> Link | None:
        """Return a link to the agent that is detached, of a client that is still connected, or None.

        A client may close its link as soon as it has sent a request.
        """
        found = self._departed.get((worker, link, generation))
        opened = None if found is None else self._base.connections.find(worker, found.link.connection)
        return found.link if found and opened and opened.number == found.connection else None
