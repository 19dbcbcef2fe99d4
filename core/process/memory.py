"""Gives memory back that the forwarder no longer needs (core/forwarder/inspection/memory.c)."""

from core.forwarder.forward import Forwarder, Pools


class Memory:
    """Gives memory back in steps between two turns of the forwarder."""

    def __init__(self, forwarder: Forwarder) -> None:
        self._pools = Pools(forwarder)

    def step(self, now: int) -> int:
        """Do one step of what is due at `now`, in nanoseconds.

        Return the nanoseconds until the next step is due.
        """
        return self._pools.thin(now)
