"""Links that the core wants: between routers, and the ends of those that are routed through."""

from typing import Any, Protocol

import msgspec

from shm.payloads import Attached, Detach, OpenLink, Termini
from workers.neighbours import AmqpError, Dialler


class Coupler(Protocol):
    """What is asked of workers.pump.Coupler."""

    def open_link(
        self,
        index: int,
        generation: int,
        request: int,
        name: str,
        outgoing: bool,
        session: int,
        given: tuple[Any, ...],
    ) -> bool: ...
    def answer(self, index: int, generation: int, given: tuple[Any, ...]) -> bool: ...
    def detach(self, index: int, generation: int, error: AmqpError | None = None) -> None: ...


class Couplings:
    """Links that the core wants, and the ends of those that are routed through, in one worker."""

    def __init__(self, dialler: Dialler, coupler: Coupler) -> None:
        self._dialler = dialler
        self._coupler = coupler

    def open_link(self, wish: OpenLink) -> bool:
        """Attach to a peer: as another peer has attached here, if that is why. False: it cannot be."""
        if wish.termini is not None:
            return self._coupler.open_link(
                wish.connection,
                wish.generation,
                wish.request,
                wish.name,
                wish.outgoing,
                wish.session,
                _values(wish.termini),
            )
        return self._dialler.open_link(
            wish.connection,
            wish.generation,
            wish.request,
            wish.name,
            wish.outgoing,
            wish.source,
            wish.target,
            wish.session,
            wish.source_capabilities,
            wish.target_capabilities,
            wish.dynamic_source,
            wish.snd_settle_mode,
            wish.rcv_settle_mode,
            wish.capacity,
        )

    def answer(self, message: Attached, termini: Termini) -> None:
        """Answer an attach as the other end was answered."""
        self._coupler.answer(message.link, message.generation, _values(termini))

    def detach(self, message: Detach, error: AmqpError | None) -> None:
        """Detach an end, but not for good."""
        self._coupler.detach(message.link, message.generation, error)


def _values(termini: Termini) -> tuple[Any, ...]:
    """As the pump takes them: tuples in a tuple."""
    source, target, *rest = msgspec.structs.astuple(termini)
    return (msgspec.structs.astuple(source), msgspec.structs.astuple(target), *rest)
