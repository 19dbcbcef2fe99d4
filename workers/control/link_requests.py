"""Link requests: the core's orders to open links between routers and in link-route pairs."""

import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple, Protocol

import msgspec

from shm.contract.payloads import Attached, Detach, OpenLink, Termini
from workers.control.neighbours import AmqpError


class Dialler(Protocol):
    """The part of workers.loop.pump.Dialler that link requests use."""

    def open_link(self, opening: OpenLink) -> AmqpError | None: ...


class Coupler(Protocol):
    """The part of workers.loop.pump.Coupler that link requests use."""

    def taken(self, index: int, generation: int, name: str, outgoing: bool) -> bool: ...
    def live(self, index: int, generation: int, name: str, outgoing: bool) -> bool: ...
    def open_link(self, opening: OpenLink) -> AmqpError | None: ...
    def answer(self, index: int, generation: int, given: Termini) -> bool: ...
    def detach(self, index: int, generation: int, error: AmqpError | None = None) -> None: ...
    def give_up(self, index: int, generation: int, error: AmqpError) -> None: ...


POLL_SECONDS: Final = 0.02  # interval of polls while another link has the name
POLLED_MOST: Final = 64  # names at a poll: others have their turn between
WAITING_MOST: Final = 16  # requests for one name: whoever attaches and detaches again and again adds one each time
LASTING_MOST: Final = 128  # requests of a connection that may wait for so long; the core has 1024 sent at a time
PATIENCE: Final = 30.0  # seconds in which a connection that is lost, but looks alive, should have been found out
LIMIT: Final = "amqp:resource-limit-exceeded"
CROWDED: Final = (LIMIT, "Too many links wait for another link of the same name to end")
GONE: Final = ("amqp:connection:forced", "the connection of the link is gone")
NO_ROOM: Final = (LIMIT, "this router has no room for another link")
LOCKED: Final = (
    "amqp:resource-locked",
    "Another link of this name and container-id is attached to the broker; give each client a container-id of its own",
)

ATTACH_REST: Final = 128  # octets of an ATTACH besides names, addresses and what the peer's client has said


def attach_size(opening: OpenLink) -> int:
    """Return about how many octets a link's ATTACH has."""
    texts = [opening.name, opening.source, opening.target]
    octets: list[bytes] = []
    if (termini := opening.termini) is not None:
        ends = termini.source, termini.target
        texts += [end.address for end in ends]
        octets = [termini.properties]
        octets += [one for end in ends for one in (end.properties, end.capabilities, end.outcomes, end.filters)]
    return ATTACH_REST + sum(len(one.encode()) for one in texts if one) + sum(map(len, octets))


Key = tuple[int, int, str, bool]  # connection and its generation, name of the link, whether it is outgoing


class Waiting(NamedTuple):
    """A request that waits for its name, ``since`` a time in seconds."""

    opening: OpenLink
    since: float


class LinkRequests:
    """The link requests of one worker; ``refuse`` is called with the number of one that cannot be fulfilled.

    Between two containers a name stands for one link of a direction (AMQP 1.0 part 2.6.1): a broker may take it from
    the link that has it. So no two of ours have it at a time:

        the previous one has been detached    the next one waits until the broker has answered
        another one is attached               the next one gets a name of its own, unless its terminus outlives its
                                              connection: the broker keeps that by the name. It waits until the other
                                              one is gone, whose connection may be lost without anybody's knowing
    """

    def __init__(
        self,
        dialler: Dialler,
        coupler: Coupler,
        refuse: Callable[[int, AmqpError | None], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dialler = dialler
        self._coupler = coupler
        self._refuse = refuse
        self._clock = clock
        self._waiting: dict[Key, list[Waiting]] = {}
        # By connection and its generation: those that wait and whose terminus is to outlive its connection.
        self._lasting: Counter[tuple[int, int]] = Counter()

    def wait(self, at_most: float) -> float:
        """Return the seconds until `step` has something to do, at most ``at_most``."""
        return min(at_most, POLL_SECONDS) if self._waiting else at_most

    def step(self) -> None:
        """Attach the first waiting link of each name that has become free, and those that need not wait for it. Names
        take turns."""
        for key in list(islice(self._waiting, POLLED_MOST)):
            waiting = self._waiting.pop(key)
            go = [] if self._coupler.taken(*key) else [waiting.pop(0).opening]
            if not go and self._coupler.live(*key):
                go = [one.opening for one in waiting if not _lasts(one.opening)]
                waiting = self._patient([one for one in waiting if _lasts(one.opening)])
            for opening in go:
                self._waits_no_more(opening)
                self.open_link(opening)
            if waiting:
                self._waiting[key] = waiting

    def _patient(self, waiting: list[Waiting]) -> list[Waiting]:
        """Refuse those that have waited too long for an attached link to end. Return the others."""
        since = self._clock() - PATIENCE
        for one in waiting:
            if one.since <= since:
                self._waits_no_more(one.opening)
                self._refuse(one.opening.request, LOCKED)
        return [one for one in waiting if one.since > since]

    def _waits_no_more(self, opening: OpenLink) -> None:
        connection = opening.connection, opening.generation
        if _lasts(opening):
            self._lasting[connection] -= 1
            if not self._lasting[connection]:
                del self._lasting[connection]

    def forget(self) -> None:
        """Drop all requests of a dead core."""
        self._waiting.clear()
        self._lasting.clear()

    def open_link(self, opening: OpenLink) -> None:
        """Attach a link, with the far end's termini for a link-route pair, or refuse it."""
        if (error := self._open(opening)) is not None:
            self._refuse(opening.request, error)

    def _open(self, opening: OpenLink) -> AmqpError | None:
        """Attach a link or let it wait; return the AMQP error of one that can do neither."""
        if opening.termini is None:
            return self._dialler.open_link(opening)
        if not _lasts(opening) and self._coupler.live(*_key(opening)):
            opening = msgspec.structs.replace(opening, name=f"{opening.name}@{opening.request}")
        key = _key(opening)
        if key not in self._waiting and not self._coupler.taken(*key):
            return self._coupler.open_link(opening)
        waiting = self._waiting.get(key, [])
        connection = opening.connection, opening.generation
        if len(waiting) >= WAITING_MOST:
            return CROWDED
        if _lasts(opening):
            if self._lasting[connection] >= LASTING_MOST:
                return LOCKED if self._coupler.live(*key) else CROWDED
            self._lasting[connection] += 1
        self._waiting[key] = [*waiting, Waiting(opening, self._clock())]
        return None

    def answer(self, message: Attached, termini: Termini) -> None:
        """Answer an attach as the other end of the link-route pair was answered."""
        self._coupler.answer(message.link, message.generation, termini)

    def detach(self, message: Detach, error: AmqpError | None) -> None:
        """Detach an end of a link-route pair without closing the link."""
        self._coupler.detach(message.link, message.generation, error)

    def give_up(self, link: int, generation: int, error: AmqpError) -> None:
        """Close an end of a link-route pair, or only detach one whose terminus is to outlive its connection."""
        self._coupler.give_up(link, generation, error)


def _key(opening: OpenLink) -> Key:
    return opening.connection, opening.generation, opening.name, opening.outgoing


def _lasts(opening: OpenLink) -> bool:
    """Whether the broker keeps the link's terminus beyond its connection."""
    assert opening.termini is not None, "only links of link-route pairs wait"
    return (opening.termini.target if opening.outgoing else opening.termini.source).lasts
