"""The orderly stop: a state machine whose inputs are events and times.

    draining --all drained, or grace over--> closing --all closed, or time up--> exiting --all gone--> (over)
                                                                                 exiting --time up--> killing

A worker that is gone counts as drained and closed. Prohibited: to go back, or to stay longer than the times
below, which together are the 5 s within which a router stops.
"""

from enum import Enum

import msgspec

from shm.contract.control import CloseConnections, Exit, StopAccepting

DRAIN_SECONDS = 3.0  # the longest grace for open deliveries, whatever the configuration says
CLOSE_SECONDS = 1.0
EXIT_SECONDS = 2.5  # enough for a busy machine; less if draining and closing took long
LEAST_EXIT_SECONDS = 0.5
HURRY_SECONDS = 0.2


class Phase(Enum):
    """What the children are told to do."""

    DRAINING = "draining"
    CLOSING = "closing"
    EXITING = "exiting"
    KILLING = "killing"


def order(phase: Phase, closing: CloseConnections = CloseConnections()) -> msgspec.Struct:  # noqa: B008  frozen
    """Return the message to a process when a phase begins; in the last phase it is killed instead."""
    if phase is Phase.CLOSING:
        return closing
    return StopAccepting() if phase is Phase.DRAINING else Exit()


class Stopping:
    """The phase of a stop; `awaited` are the workers that have not yet answered in it."""

    def __init__(self, now: float, grace: float, workers: set[int]) -> None:
        self._workers = set(workers)
        self._hurry = False
        self._over = now + DRAIN_SECONDS + CLOSE_SECONDS + LEAST_EXIT_SECONDS
        self.awaited: set[int] = set()
        self.phase = Phase.DRAINING
        self.deadline = now
        self._enter(Phase.DRAINING, now, min(grace, DRAIN_SECONDS))

    def answered(self, worker: int, phase: Phase) -> None:
        """Note that a worker has done what `phase` asks for; answers to earlier phases are ignored."""
        if phase is self.phase:
            self.awaited.discard(worker)

    def gone(self, worker: int) -> None:
        """Wait for a dead worker no longer."""
        self._workers.discard(worker)
        self.awaited.discard(worker)

    def hurry(self, now: float) -> None:
        """Wait for no answers any more, only for the processes to exit."""
        self._hurry = True
        self.deadline = min(self.deadline, now)

    def step(self, now: float) -> Phase | None:
        """Return the phase that begins now, or None. Call it until it returns None."""
        if self.phase is Phase.KILLING or (now < self.deadline and (self.awaited or self.phase is Phase.EXITING)):
            return None
        if self.phase is Phase.DRAINING and not self._hurry:
            return self._enter(Phase.CLOSING, now, CLOSE_SECONDS)
        if self.phase is Phase.EXITING:
            return self._enter(Phase.KILLING, now, 0.0)
        left = max(LEAST_EXIT_SECONDS, min(EXIT_SECONDS, self._over - now))
        return self._enter(Phase.EXITING, now, HURRY_SECONDS if self._hurry else left)

    def _enter(self, phase: Phase, now: float, seconds: float) -> Phase:
        self.phase, self.deadline = phase, now + seconds
        self.awaited = set(self._workers) if phase in (Phase.DRAINING, Phase.CLOSING) else set()
        return phase
