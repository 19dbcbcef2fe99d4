"""Link requests: the core's orders to open links between routers and in link-route pairs."""

from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

from shm.contract.payloads import Attached, Detach, OpenLink, Termini
from workers.control.neighbours import AmqpError


class Dialler(Protocol):
    """The part of workers.loop.pump.Dialler that link requests use."""

    def open_link(self, opening: OpenLink) -> bool: ...


class Coupler(Protocol):
    """The part of workers.loop.pump.Coupler that link requests use."""

    def taken(self, index: int, generation: int, name: str, outgoing: bool, session: int) -> bool: ...
    def open_link(self, opening: OpenLink) -> bool: ...
    def answer(self, index: int, generation: int, given: Termini) -> bool: ...
    def detach(self, index: int, generation: int, error: AmqpError | None = None) -> None: ...


POLL_SECONDS: Final = 0.02  # interval of polls while another link has the name
POLLED_MOST: Final = 64  # names at a poll: others have their turn between
WAITING_MOST: Final = 16  # requests for one name: whoever attaches and detaches again and again adds one each time
CROWDED: Final = ("amqp:resource-limit-exceeded", "Too many links wait for another link of the same name to end")
GONE: Final = ("amqp:connection:forced", "the connection of the link is gone")

Key = tuple[int, int, str, bool]  # connection and its generation, name of the link, whether it is outgoing


class LinkRequests:
    """The link requests of one worker; ``refuse`` is called with the number of one that cannot be fulfilled.

    The links of a link-route pair have the same name. When a client attaches again after a detach, the new
    link waits until the broker has answered the detach of the previous link with that name.
    """

    def __init__(self, dialler: Dialler, coupler: Coupler, refuse: Callable[[int, AmqpError | None], None]) -> None:
        self._dialler = dialler
        self._coupler = coupler
        self._refuse = refuse
        self._waiting: dict[Key, list[OpenLink]] = {}

    def wait(self, at_most: float) -> float:
        """Return the seconds until `step` has something to do, at most ``at_most``."""
        return min(at_most, POLL_SECONDS) if self._waiting else at_most

    def step(self) -> None:
        """Attach the first waiting link of each name that has become free. Names take turns."""
        for key in list(islice(self._waiting, POLLED_MOST)):
            openings = self._waiting.pop(key)
            if self._coupler.taken(*key, openings[0].session):
                self._waiting[key] = openings
                continue
            opening = openings.pop(0)
            if openings:
                self._waiting[key] = openings
            if not self._coupler.open_link(opening):
                self._refuse(opening.request, GONE)

    def forget(self) -> None:
        """Drop all requests of a dead core."""
        self._waiting.clear()

    def open_link(self, opening: OpenLink) -> bool:
        """Attach a link, with the far end's termini for a link-route pair; return False if that fails."""
        if opening.termini is not None:
            key = opening.connection, opening.generation, opening.name, opening.outgoing
            if key in self._waiting or self._coupler.taken(*key, opening.session):
                waiting = self._waiting.setdefault(key, [])
                if len(waiting) < WAITING_MOST:
                    waiting.append(opening)
                else:
                    self._refuse(opening.request, CROWDED)
                return True
            return self._coupler.open_link(opening)
        return self._dialler.open_link(opening)

    def answer(self, message: Attached, termini: Termini) -> None:
        """Answer an attach as the other end of the link-route pair was answered."""
        self._coupler.answer(message.link, message.generation, termini)

    def detach(self, message: Detach, error: AmqpError | None) -> None:
        """Detach an end of a link-route pair without closing the link."""
        self._coupler.detach(message.link, message.generation, error)
