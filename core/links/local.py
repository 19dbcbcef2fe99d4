"""The core as destination and source of messages: subscribers in this process and their own messages.

A subscriber gets a message's bytes when all have arrived, and the sender sees the outcome accepted. The core
sends settled messages to the present receivers of an address; without receivers a message is lost. Nothing
here blocks. A message that cannot go at once waits in the queue of its address, unless it is longer than any
message of the core's own may be. The queue is looked at again when

    a message to that address has come back     it had lent as many as one address may have
    a block has come back                       the core's arena had no room for the message
    a receiver of that address is gone          without receivers the queue goes, too
"""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from core.addresses.addresses import Address, Addresses, spelling
from core.forwarder.forward import Forwarder
from core.forwarder.link_terms import LinkTerms
from core.forwarder.recorded import Agents, Nodes
from core.links.plane import Plane
from core.links.roomless import Roomless
from core.links.waiting import Waiting
from shm import native as n
from shm.contract.complaints import Complaints

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from core.links.link import Link
    from shm.contract.payloads import Detach

LOGGER = logging.getLogger("ROUTER_CORE")

MESSAGE_LIMIT: Final = 1 << 20  # bytes of a message of the core's own, and by default of one to it
LINK_CAPACITY: Final = 250
GENERATION: Final = 1  # of the core's own links, which end with the core
LENT_TO_ONE: Final = 8  # messages on their way to one address, so that a stuck receiver cannot fill the arena
PORTION: Final = 32  # queues that found no room and are looked at again before others have their turn


class RefusedError(Exception):
    """A subscriber rejects a message; the text says what is wrong with it."""


Source = tuple[int, int, int] | None  # worker, index and generation of a link; None: unknown
Contain = Callable[[Callable[[], None], Source], bool]
Receive = Callable[[bytes], None]
Hear = Callable[[bytes, int], None]  # content, and the place of the sending router or -1
_Work = tuple[int, int, int, int, int, int, int, int, Source]  # as Forwarder.own_work says


class _Incoming(msgspec.Struct):
    """A message on its way to a subscriber."""

    receive: Hear
    reader: n.ChainReader
    settled: bool
    source: Source  # the link on which it arrived
    place: int
    skip: int  # octets in front that only routers read
    limit: int
    text: bytes  # the text of its `to`
    parts: list[bytes] = []
    size: int = 0

    def give(self) -> None:
        """Pass the message to its subscriber."""
        self.receive(b"".join(self.parts)[self.skip :], self.place)


class Local(Plane):
    """The core's own links. ``arenas`` holds the workers' arenas, then the core's."""

    def __init__(
        self, forwarder: Forwarder, addresses: Addresses, workers: int, arenas: "Sequence[WriteableBuffer]"
    ) -> None:
        self._forwarder = forwarder
        self._addresses = addresses
        self._place = workers
        self._segments = arenas
        self._arenas: dict[int, n.Arena] = {}
        self._receivers: dict[int, Hear | None] = {}  # by link; None: it releases all messages
        self._heard: dict[int, Address] = {}  # by link: the address that only the core receives from
        self._limits: dict[int, int] = {}  # by link: the longest message in octets
        self._unused: list[int] = []  # indices of removed links
        self._incoming: dict[int, _Incoming] = {}  # by the core's handle
        self._lent: dict[int, str] = {}  # block of a sent message -> key of its address
        self._lent_to: Counter[str] = Counter()  # by key
        self._waiting = Waiting()  # by key
        self._roomless = Roomless()
        self._more = False  # there may be room for some of them
        self._sender: int | None = None
        self.source: Source = None  # the link of the message being received, if known
        self.text = b""  # the `to` of that message
        self._nodes = Nodes(forwarder)
        self._agents = Agents(forwarder)
        self._complaints = Complaints()
        self.contained: Contain | None = None  # runs subscribers and contains their failures

    def __len__(self) -> int:
        """Return the number of messages that arrive, leave or wait."""
        return len(self._incoming) + len(self._lent) + len(self._waiting)

    def subscribe(self, text: str, receive: Receive) -> None:
        """Deliver messages to an address, as clients spell it, to ``receive``."""
        self.listen(text, lambda content, _: receive(content))

    def listen(self, text: str, hear: Hear, limit: int = MESSAGE_LIMIT) -> int:
        """Deliver messages of up to ``limit`` octets to ``hear``, which also gets their origin.

        Return the link. Raises MemoryError when the core's table of links is full.
        """
        address = self._addresses.resolve(text)
        link = self._add_link(True, address.handle)
        address.to_core = True
        self._heard[link] = address
        self._receivers[link] = hear
        self._limits[link] = limit
        return link

    def refuse(self, address: Address) -> int:
        """Let an address lead to the core, which releases its messages. Return the link."""
        link = self._add_link(True, address.handle)
        self._receivers[link] = None
        return link

    def leave(self, link: int) -> None:
        """Remove a link of ``listen`` or ``refuse``."""
        self._forwarder.remove_link(self._place, link, GENERATION)
        del self._receivers[link]
        if address := self._heard.pop(link, None):
            address.to_core = False
            self._addresses.forget_idle(address)
        self._limits.pop(link, None)
        self._unused.append(link)

    def _add_link(self, outgoing: bool, address: int) -> int:
        new = len(self._receivers) + (self._sender is not None)
        link = self._unused.pop() if self._unused else new
        terms = LinkTerms(outgoing, address, LINK_CAPACITY)
        if not self._forwarder.add_link(self._place, link, GENERATION, terms):
            raise MemoryError("the table of the core's own links is full")
        return link

    def send(self, text: str, content: bytes) -> bool:
        """Send a whole settled message. It waits if there is no room now.

        Return False if nobody receives from the address, if too much waits and no other address has more of it, or
        if the message is longer than `MESSAGE_LIMIT`.
        """
        address = self._reached(text)
        if address is None:
            LOGGER.debug("a message of the core's own to %r was dropped: nobody receives there", text)
            return False
        if not self._fits(content, text):
            return False
        if address.key not in self._waiting and self._try(address, content):
            return True
        dropped = self._waiting.add(address.key, content)
        for key in dict.fromkeys(dropped):
            self._dropped(spelling(key))
            if key not in self._waiting:
                self._roomless.leave(key)
        return address.key not in dropped

    def _fits(self, content: bytes, text: str) -> bool:
        """Whether a message may find room some time; the log says so of one that may not."""
        if len(content) <= MESSAGE_LIMIT:
            return True
        who, what = f"a message of the core's own to {text!r}", "was dropped: it has %d bytes, and %d are possible"
        self._say(logging.WARNING, f"%s {what}", who, len(content), MESSAGE_LIMIT, key=(who, what))
        return False

    def _dropped(self, text: str) -> None:
        who, what = f"a message of the core's own to {text!r}", "was dropped: its receiver takes no messages"
        self._say(logging.WARNING, "%s %s", who, what, key=(who, what))

    def _say(self, level: int, text: str, *what: object, key: Hashable = None) -> None:
        self._complaints.tell(self._forwarder.now / 1e9, LOGGER, level, text, *what, key=key)

    def reaches(self, text: str) -> bool:
        """Whether somebody receives from an address."""
        return self._reached(text) is not None

    def waiting(self, text: str) -> int:
        """Return the number of messages on their way to an address."""
        address = self._addresses.find(text)
        if address is None:
            return 0
        return self._lent_to[address.key] + self._waiting.count(address.key)

    def _try(self, address: Address, content: bytes, its_turn: bool = False) -> bool:
        """Send at once to an address that has receivers. Return False if the message has to wait.

        While others wait for room, it waits behind them unless it is its turn.
        """
        if self._lent_to[address.key] >= LENT_TO_ONE:
            return False
        behind = bool(self._roomless) and not its_turn
        block = None if behind else self._forwarder.own_send(self._from(), address.handle, content)
        if block is None:
            self._more |= behind
            self._roomless.enter(address.key, len(content))
            return False
        self._lent[block] = address.key
        self._lent_to[address.key] += 1
        return True

    def _from(self) -> int:
        """Return the core's own sending link."""
        if self._sender is None:
            self._sender = self._add_link(False, 0)
        return self._sender

    def _reached(self, text: str) -> Address | None:
        """Return an address that has receivers or routers that reach it, or None."""
        address = self._addresses.find(text)
        return address if self._has_way(address) else None

    def _has_way(self, address: Address | None) -> bool:
        if address is None:
            return False
        info = self._forwarder.address_info(address.handle)
        return bool(info["outgoing"] or info["reached"])

    def tell_routers(self, text: str, content: bytes) -> bool:
        """Send to other routers over control links, and to no local receivers.

        Return False if no router gets it.
        """
        address = self._reached(text)
        return (
            address is not None
            and self._fits(content, text)
            and self._forwarder.own_send(self._from(), address.handle, content, control=True) is not None
        )

    def tell_neighbour(self, place: int, content: bytes) -> bool:
        """Send over the control link of the router at a place of the forwarder. Return False if it fails."""
        return self._fits(content, "a neighbour") and self._nodes.tell(self._from(), place, content) is not None

    def _came_back(self, block: int) -> None:
        """Let the next message go to an address that a message has come back from."""
        key = self._lent.pop(block, None)
        if key is None:
            return
        self._lent_to[key] -= 1
        if not self._lent_to[key]:
            del self._lent_to[key]
        self._go_on(key)

    def _go_on(self, key: str, its_turn: bool = False) -> bool:
        """Send what waits for an address, or forget it if nobody is there. Return False if there is no room."""
        if key in self._waiting and not self._empty(key, its_turn):
            return False
        self._roomless.leave(key)
        return True

    def _empty(self, key: str, its_turn: bool) -> bool:
        address = self._addresses.known(key)
        if address is None or not self._has_way(address):
            text = "%d messages of the core's own to %r were dropped: nobody receives there any more"
            LOGGER.debug(text, self._waiting.count(key), spelling(key))
            self._waiting.forget(key)
            return True
        while (content := self._waiting.first(key)) is not None:
            if not self._try(address, content, its_turn):
                return self._lent_to[key] >= LENT_TO_ONE
            self._waiting.remove_first(key)
        return True

    def _use_room(self) -> bool:
        """Send what found no room, the oldest first, as far as there is some now. Return True after a whole portion.

        Who got something and needs more goes to the end; who got nothing keeps its place, and shorter messages go on.
        """
        missing: int | None = None  # there is no room for so many digits
        for _ in range(PORTION):
            first = self._roomless.first(below=missing)
            if first is None:
                return False
            key, digits = first
            lent = self._lent_to[key]
            if self._go_on(key, its_turn=True):
                continue
            if self._lent_to[key] == lent:
                missing = digits
            elif (content := self._waiting.first(key)) is not None:
                self._roomless.leave(key)
                self._roomless.enter(key, len(content))
        return True

    @property
    def restless(self) -> bool:
        """Whether there may be room for messages that have found none."""
        return self._more

    def step(self, now: int) -> None:
        """Send a portion of what found no room before."""
        self._more = bool(self._roomless) and self._use_room()

    def detached(self, link: "Link", detach: "Detach | None") -> None:
        """Forget what waits for an address whose last receiver is gone."""
        if link.address is not None and link.outgoing:
            self._go_on(link.address.key)

    # ---- records of the forwarder ----

    def work(self, limit: int = 64) -> None:
        """Handle up to ``limit`` records of the core's own work.

        If more are left, the forwarder stops again.
        """
        for _ in range(limit):
            record = self._forwarder.own_work()
            if record is None:
                break
            self._record(record)

    def _record(self, record: _Work) -> None:
        kind, flags, link, delivery, arena, block, place, skip, source = record
        if kind == n.W_RELEASE:
            self._came_back(block)
            self._more = bool(self._roomless)
        elif kind == n.W_SEND and (receive := self._receivers.get(link)) is None:
            self._turn_away(delivery, bool(flags & n.F_SETTLED))
        elif kind == n.W_SEND and receive is not None:
            reader = n.ChainReader(self._arena(arena), block)
            text = self._agents.called(arena, block)
            settled = bool(flags & n.F_SETTLED)
            limit = self._limits.get(link, MESSAGE_LIMIT)
            incoming = _Incoming(
                receive, reader, settled, source=source, place=place, skip=skip, limit=limit, text=text
            )
            self._incoming[delivery] = incoming
            self._read(delivery, incoming, bool(flags & n.F_COMPLETE))
        elif (known := self._incoming.get(delivery)) is None:
            return  # already settled here, and the sender did not know yet
        elif kind == n.W_CONTINUE and flags & n.F_ABORTED:
            known.settled = True
            self._finish(delivery, dropped=True)
        elif kind == n.W_CONTINUE:
            self._read(delivery, known, bool(flags & n.F_COMPLETE))
        elif kind == n.W_UPDATE and flags & n.F_SETTLED:
            known.settled = True

    def _turn_away(self, delivery: int, settled: bool) -> None:
        if settled:
            self._forwarder.own_action(n.A_DONE, n.F_DROPPED, delivery)
        else:
            self._forwarder.own_action(n.A_UPDATE, n.F_SETTLED, delivery, n.S_RELEASED)

    def _arena(self, index: int) -> n.Arena:
        if index not in self._arenas:
            self._arenas[index] = n.Arena(self._segments[index])
        return self._arenas[index]

    def _read(self, delivery: int, incoming: _Incoming, complete: bool) -> None:
        try:
            part = incoming.reader.read()
        except ValueError as error:
            self._say(logging.WARNING, "a message to the core itself cannot be read: %s", error)
            self._finish(delivery, dropped=True)
            return
        incoming.size += len(part)
        if incoming.size > incoming.limit:
            text = "a message to the core itself is longer than %d bytes and was rejected"
            self._say(logging.INFO, text, incoming.limit)
            self._finish(delivery, dropped=True)
            return
        incoming.parts.append(part)
        if complete:
            self.source, self.text = incoming.source, incoming.text
            self._finish(delivery, dropped=not self._received(incoming))
        else:
            self._forwarder.own_action(n.A_PROGRESS, 0, delivery, length=incoming.size)

    def _received(self, incoming: _Incoming) -> bool:
        """Pass a message to its subscriber. Return False if the subscriber rejects it."""
        try:
            if self.contained is not None:
                return self.contained(incoming.give, incoming.source)
            incoming.give()
        except RefusedError as error:
            LOGGER.debug("a message to the core itself was rejected: %s", error)
            return False
        return True

    def _finish(self, delivery: int, dropped: bool = False) -> None:
        """End a delivery: report it done if it is already settled, else with an outcome."""
        incoming = self._incoming.pop(delivery)
        if incoming.settled:
            self._forwarder.own_action(n.A_DONE, n.F_DROPPED if dropped else 0, delivery)
            return
        state = n.S_REJECTED if dropped else n.S_ACCEPTED
        self._forwarder.own_action(n.A_UPDATE, n.F_SETTLED, delivery, state)
