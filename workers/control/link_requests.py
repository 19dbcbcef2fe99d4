"""Links that the core wants: between routers, and the ends of those that are routed through."""

from collections.abc import Callable
from typing import Final, Protocol

from shm.contract.payloads import Attached, Detach, OpenLink, Termini
from workers.control.neighbours import AmqpError, Dialler


class Coupler(Protocol):
    """What is asked of workers.loop.pump.Coupler."""

    def taken(self, index: int, generation: int, name: str, outgoing: bool, session: int) -> bool: ...
    def open_link(self, wish: OpenLink) -> bool: ...
    def answer(self, index: int, generation: int, given: Termini) -> bool: ...
    def detach(self, index: int, generation: int, error: AmqpError | None = None) -> None: ...


LOOK_SECONDS: Final = 0.02  # while a name is another link's
GONE: Final = ("amqp:connection:forced", "the connection of the link is gone")

Key = tuple[int, int, str, bool]  # connection and its generation, name of the link, whether it is outgoing


class LinkRequests:
    """Links that the core wants, and the ends of those that are routed through, in one worker.

    A peer that attaches, detaches and attaches again has its name at the broker, too: the next link of that
    name waits until the broker has answered the detach of the one before. ``refuse``: one cannot be.
    """

    def __init__(
        self, dialler: Dialler, coupler: Coupler, refuse: Callable[[int, AmqpError | None], None]
    ) -> None:
        self._dialler = dialler
        self._coupler = coupler
        self._refuse = refuse
        self._waiting: dict[Key, list[OpenLink]] = {}

    def wait(self, at_most: float) -> float:
        """Seconds until `step` has something to do."""
        return min(at_most, LOOK_SECONDS) if self._waiting else at_most

    def step(self) -> None:
        """Attach what waits no more: one of each name."""
        for key, wishes in list(self._waiting.items()):
            if self._coupler.taken(*key, wishes[0].session):
                continue
            wish = wishes.pop(0)
            if not wishes:
                del self._waiting[key]
            if not self._coupler.open_link(wish):
                self._refuse(wish.request, GONE)

    def forget(self) -> None:
        """The core that wanted them is dead."""
        self._waiting.clear()

    def open_link(self, wish: OpenLink) -> bool:
        """Attach to a peer: as another peer has attached here, if that is why. False: it cannot be."""
        if wish.termini is not None:
            key = wish.connection, wish.generation, wish.name, wish.outgoing
            if key in self._waiting or self._coupler.taken(*key, wish.session):
                self._waiting.setdefault(key, []).append(wish)
                return True
            return self._coupler.open_link(wish)
        return self._dialler.open_link(wish)

    def answer(self, message: Attached, termini: Termini) -> None:
        """Answer an attach as the other end was answered."""
        self._coupler.answer(message.link, message.generation, termini)

    def detach(self, message: Detach, error: AmqpError | None) -> None:
        """Detach an end, but not for good."""
        self._coupler.detach(message.link, message.generation, error)
