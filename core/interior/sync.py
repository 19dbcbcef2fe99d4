"""Synchronises addresses with receivers between all routers.

Changes are sent at once, with the next sequence number (MAU). Where many follow one another, those of a tenth of a
second go together: each update is work for every router of the network. A router that misses one, or sees a higher
number in an advertisement, requests all addresses (MAR). A request that must not cross to the other dialect's side is
answered here on behalf of its router, with that router's last report.

The addresses that are kept of one router, and of all, are bounded. Those beyond are left out. Once a tenth of one
router's bound is free, the router is asked for all its addresses again.

A message has a largest length (`core.links.local.MESSAGE_LIMIT`), and there is no end to addresses. So changes go in
portions, and an answer is the first portion of all addresses, with an earlier number, and the others as changes that
lead from there to the newest one. Of a routerd's answer the first portion names the last one: only then is dropped what
no portion has named, so that messages go on meanwhile.
"""

import logging
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from core.interior.message import mobile_address
from core.interior.mobile import MobileRequest, MobileUpdate
from core.interior.nodes import Node, Nodes
from core.interior.port import Port
from shm.contract.numbers import counted

LOGGER = logging.getLogger("ROUTER_MA")

# seconds in which the same answer goes to a router once
INTERVAL: Final = 1.0
# updates at once, and updates per second after them
BURST: Final = 20
RATE: Final = 10.0
# seconds until an unanswered request is repeated
PATIENCE: Final = 2.0
# characters of keys, with ENTRY for each, of an update and of one that is part of an answer: 1 MiB has either
PORTION: Final = 32 << 10
ANSWER: Final = 4 * PORTION
ENTRY: Final = 16
# seconds between the portions of an answer
GAP: Final = 0.05
# addresses of other routers that are kept, and the characters of their keys: of one router, and of all
MOST: Final = (100_000, 4 << 20)
MOST_OF_ALL: Final = (1_000_000, 32 << 20)
_NEVER: Final = float("-inf")


class Remote(msgspec.Struct, eq=False):
    """The addresses that a router has reported."""

    seq: int = 0
    instance: int = 0  # of the run that reported them; 0: unknown
    addresses: dict[str, int] = {}
    asked: float = _NEVER
    # Requests for more than is known here: by the id of the router that asks, with its connection.
    waiting: dict[str, tuple[MobileRequest, int]] = {}
    size: int = 0  # characters of the keys
    unsure: set[str] = set()  # addresses that an answer has not named yet
    until: int = 0  # the number of its last portion


class Answer(msgspec.Struct, frozen=True):
    """A message to one router, over a connection or by the path to it."""

    to: str
    update: MobileUpdate
    neighbour: int | None


class MobileSync:
    """The addresses of all routers."""

    def __init__(self, me: str, instance: int, port: Port) -> None:
        self._me = me
        self._instance = instance
        self._port = port
        self._reported: dict[str, int] = {}
        self._changes: dict[str, int | None] = {}
        self._full_at = _NEVER  # when a whole burst may be sent again
        self._remotes: dict[str, Remote] = {}
        self._answered: dict[str, tuple[int, int | None, float]] = {}  # by router: our number, its instance, the time
        self._answers: dict[tuple[str, str], deque[Answer]] = {}  # by the router that asks, and the one asked for
        self._answers_at = _NEVER  # when their next portions may go
        self._portions: tuple[int, list[MobileUpdate]] = (0, [])  # the answer of this number
        # routers that have newer addresses than are known here
        self._behind: set[str] = set()
        self._cut: set[str] = set()  # routers of whose addresses some are left out
        self._count = self._size = 0  # of the addresses of all routers
        self.seq = 0

    # -- of this router ------------------------------------------------------------------------------------

    def local_address(self, key: str, treatment: int | None) -> None:
        """Record that an address has receivers here, or another treatment, or if None no receivers any more."""
        if self._reported.get(key) == treatment:
            self._changes.pop(key, None)
        else:
            self._changes[key] = treatment

    def due(self, now: float) -> float | None:
        """Return in how many seconds changes or answers may be sent, 0 at least, or None without any."""
        times = [self._full_at - (BURST - 1) / RATE] if self._changes else []
        if self._answers:
            times.append(self._answers_at)
        return max(0.0, min(times) - now) if times else None

    def news(self, now: float) -> MobileUpdate | None:
        """Return a portion of the changes since the last call with a result, if they are due. ``now`` is in seconds."""
        if not self._changes or now < self._full_at - (BURST - 1) / RATE:
            return None
        self._full_at = max(self._full_at, now) + 1 / RATE
        self.seq += 1
        taken = _portion(self._changes)
        changes = [(key, self._changes.pop(key)) for key in taken]
        added = {key: treatment for key, treatment in changes if treatment is not None}
        gone = tuple(key for key, treatment in changes if treatment is None)
        for key in gone:
            del self._reported[key]
        self._reported.update(added)
        LOGGER.debug("addresses %d: %d added, %d gone", self.seq, len(added), len(gone))
        update = MobileUpdate(self._me, self.seq, added, gone, instance=self._instance)
        for (_, about), answers in self._answers.items():
            if about == self._me:  # whoever is being answered takes it behind the answer
                answers.append(msgspec.structs.replace(answers[-1], update=_of(update, answers[-1].update.version)))
        return update

    def asked(self, request: MobileRequest, node: Node, now: float, neighbour: int | None) -> None:
        """Answer a node's request for this router's addresses over a connection, or by the path to it.

        Who has the newest gets no answer. An answer has all addresses, so the same one goes to a router once in a
        second at most, and no other while its portions are on their way.
        """
        seq, instance, when = self._answered.get(node.router, (0, None, _NEVER))
        again = (seq, instance) == (self.seq, node.instance) and now - when < INTERVAL
        if request.have_seq >= self.seq or again or (node.router, self._me) in self._answers:
            return
        self._answered[node.router] = (self.seq, node.instance, now)
        if self._portions[0] != self.seq:
            self._portions = self.seq, _all_of(self._me, self._instance, self.seq, self._reported)
        self._answer(request, self._portions[1], neighbour)

    def _answer(self, request: MobileRequest, portions: list[MobileUpdate], neighbour: int | None) -> None:
        to, about = mobile_address(request.router), portions[0].router
        self._answers[request.router, about] = deque(
            Answer(to, _of(one, request.version), neighbour) for one in portions
        )

    def answers(self, now: float) -> list[Answer]:
        """Return the next portion of each answer, if they are due."""
        if not self._answers or now < self._answers_at:
            return []
        due = [portions.popleft() for portions in self._answers.values()]
        self._answers = {names: portions for names, portions in self._answers.items() if portions}
        if self._answers:
            self._answers_at = now + GAP
        else:
            self._answers_at, self._portions = _NEVER, (0, [])
        return due

    # -- of other routers ----------------------------------------------------------------------------------

    def _remote(self, router: str) -> Remote:
        return self._remotes.setdefault(router, Remote())

    def seq_of(self, router: str) -> int:
        remote = self._remotes.get(router)
        return 0 if remote is None else remote.seq

    def advertised(self, node: Node, seq: int) -> None:
        """Note a router's advertised sequence number. If it has decreased, start anew."""
        if seq == 0:
            self.flush(node)
        known = self.seq_of(node.router)
        if seq == known:
            return
        remote = self._remote(node.router)
        if seq < known:
            remote.seq = remote.until = 0
        self._behind.add(node.router)

    def lacks(self, router: str) -> bool:
        """Whether some of a router's addresses are left out."""
        return router in self._cut

    def _room(self, remote: Remote, count: int, size: int) -> bool:
        """Whether so many addresses more of a router can be kept, with keys of so many characters."""
        kept = (len(remote.addresses), remote.size, MOST), (self._count, self._size, MOST_OF_ALL)
        return all(has + count <= most[0] and long + size <= most[1] for has, long, most in kept)

    def requests(self, nodes: Nodes, now: float) -> list[tuple[Node, int]]:
        """Return the routers to ask now, with the sequence number known of each, or 0 for all addresses."""
        due = []
        for router in sorted(self._behind | self._cut):
            remote = self._remote(router)
            node = nodes.get(router)
            wanted = router in self._behind or self._room(remote, MOST[0] // 10, MOST[1] // 10)
            if wanted and node is not None and node.reachable and now - remote.asked >= PATIENCE:
                remote.asked = now
                due.append((node, 0 if router in self._cut else remote.seq))
        return due

    def updated(self, node: Node, update: MobileUpdate) -> bool:
        """Apply a router's addresses or changes, and answer those who were waiting for them.

        Return True if it was the next change. A portion of an answer is none: it does not tell what is gone.
        """
        remote = self._remote(node.router)
        if update.absolute:
            self._replace(node, remote, update)
        elif update.mobile_seq == remote.seq + 1:
            self._apply(node, remote, update)
        else:
            # an old update is another copy of what is known
            if update.mobile_seq > remote.seq:
                self._behind.add(node.router)
            return False
        remote.seq, remote.instance = update.mobile_seq, update.instance
        if node.router not in self._cut:
            remote.asked = _NEVER
        self._behind.discard(node.router)
        count = counted(len(remote.addresses), "address")
        LOGGER.debug("router %s has %s at %d", node.router, count, remote.seq)
        self._waiting_for(node.router, remote)
        return not update.absolute and update.mobile_seq > remote.until

    def _replace(self, node: Node, remote: Remote, update: MobileUpdate) -> None:
        self._cut.discard(node.router)
        remote.unsure, remote.until = remote.addresses.keys() - update.present.keys(), update.until
        self._finish(node, remote, update)
        self._map(node, remote, update)

    def _apply(self, node: Node, remote: Remote, update: MobileUpdate) -> None:
        for key in update.gone:
            if key in remote.addresses:
                self._unmap(node, remote, key)
        remote.unsure.difference_update(update.gone, update.present)
        self._finish(node, remote, update)
        self._map(node, remote, update)

    def _finish(self, node: Node, remote: Remote, update: MobileUpdate) -> None:
        """Drop what an answer has not named by its last portion; until then messages still go there."""
        if update.mobile_seq >= remote.until:
            for key in remote.unsure:
                self._unmap(node, remote, key)
            remote.unsure = set()

    def _map(self, node: Node, remote: Remote, update: MobileUpdate) -> None:
        for key, treatment in update.present.items():
            known = remote.addresses.get(key)
            while known is None and remote.unsure and not self._room(remote, 1, len(key)):
                # As many as are named have room. One that a later portion names comes back with it.
                self._unmap(node, remote, remote.unsure.pop())
            if known is None and not self._room(remote, 1, len(key)):
                self._cut.add(node.router)
            elif known != treatment:
                if known is None:
                    self._weigh(remote, 1, len(key))
                remote.addresses[key] = treatment
                self._port.map_destination(key, node.bit, treatment)

    def _weigh(self, remote: Remote, count: int, size: int) -> None:
        remote.size += size
        self._count += count
        self._size += size

    def _unmap(self, node: Node, remote: Remote, key: str) -> None:
        del remote.addresses[key]
        self._weigh(remote, -1, -len(key))
        self._port.unmap_destination(key, node.bit)

    def flush(self, node: Node) -> None:
        """Drop the addresses of a router that has restarted or cannot be reached."""
        for other in self._remotes.values():
            other.waiting.pop(node.router, None)
        self._behind.discard(node.router)
        self._cut.discard(node.router)
        self._answered.pop(node.router, None)
        self._answers = {names: portions for names, portions in self._answers.items() if node.router not in names}
        remote = self._remotes.pop(node.router, None)
        if remote is None:
            return
        self._weigh(remote, -len(remote.addresses), -remote.size)
        for key in remote.addresses:
            self._port.unmap_destination(key, node.bit)
        if remote.addresses:
            LOGGER.info("dropped %s of router %s", counted(len(remote.addresses), "address"), node.router)

    # -- on behalf of others -------------------------------------------------------------------------------

    def asked_for(self, node: Node, request: MobileRequest, neighbour: int) -> None:
        """Answer a request for the addresses of a router of the other dialect, now or once they are known."""
        remote = self._remote(node.router)
        remote.waiting[request.router] = (request, neighbour)
        self._waiting_for(node.router, remote)

    def _waiting_for(self, router: str, remote: Remote) -> None:
        if remote.seq < remote.until:  # some are gone, and others would never hear of it
            return
        for asker, (request, neighbour) in list(remote.waiting.items()):
            if remote.seq > request.have_seq:
                del remote.waiting[asker]
                self._answer(request, _all_of(router, remote.instance, remote.seq, remote.addresses), neighbour)


def _portion(keys: Iterable[str], most: int = PORTION) -> list[str]:
    """Return the first keys, as many as an update may have, one at least."""
    taken: list[str] = []
    for key in keys:
        most -= len(key) + ENTRY
        if most < 0 and taken:
            break
        taken.append(key)
    return taken


def _all_of(router: str, instance: int, seq: int, addresses: Mapping[str, int]) -> list[MobileUpdate]:
    """Return the updates that tell all addresses of a router whose newest number is ``seq``, at most so many."""
    keys = deque(addresses)
    size = sum(map(len, keys)) + ENTRY * len(keys)
    parts: list[dict[str, int]] = []
    while keys or not parts:
        taken = _portion(keys, max(ANSWER, 3 * size // seq))
        parts.append({key: addresses[key] for key in taken})
        for _ in taken:
            keys.popleft()
    first = seq + 1 - len(parts)
    until = seq if len(parts) > 1 else 0
    begin = MobileUpdate(router, first, parts[0], absolute=True, instance=instance, until=until)
    return [begin, *(MobileUpdate(router, first + i, parts[i], instance=instance) for i in range(1, len(parts)))]


def _of(update: MobileUpdate, version: int) -> MobileUpdate:
    """Return an update in the form of a version."""
    return msgspec.structs.replace(update, version=version)
