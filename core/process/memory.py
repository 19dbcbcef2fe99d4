"""Gives memory back that the core no longer needs (core/forwarder/inspection/memory.c, tables/alias.c)."""

from core.addresses.addresses import Addresses
from core.forwarder.forward import Forwarder
from core.forwarder.recorded import Pools


class Memory:
    """Gives memory back in steps between two turns of the forwarder."""

    def __init__(self, forwarder: Forwarder, addresses: Addresses) -> None:
        self._pools = Pools(forwarder)
        self._addresses = addresses

    def step(self, now: int) -> int:
        """Do one step of what is due at `now`, in nanoseconds.

        Return the nanoseconds until the next step is due.
        """
        idle, pause = self._pools.thin_aliases(now)
        for handle in idle:
            if (address := self._addresses.of_handle(handle)) is not None:
                self._addresses.forget_idle(address)
        return min(pause, self._pools.thin(now))
