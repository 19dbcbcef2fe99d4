"""Exchanges: addresses that forward messages to others by subject and binding keys (docs/addresses.md)."""

import logging
from typing import Final

import msgspec

from core.addresses.addresses import Address, mobile_text
from core.exchanges.keys import SEPARATORS, compile_keys
from core.forwarder.recorded import Exchanges as Table
from core.links.base import Base
from core.links.plane import Plane
from shm.contract.control import SetRouting
from shm.contract.routing import ExchangeSetup

LOGGER = logging.getLogger("ROUTER_CORE")

NO_COUNTS: Final[tuple[int, int, int, int, list[int]]] = (0, 0, 0, 0, [])


class Exchange(msgspec.Struct):
    """An exchange in use."""

    setup: ExchangeSetup
    address: Address
    hops: list[Address]


class Exchanges(Plane):
    """All exchanges of this router."""

    def __init__(self, base: Base) -> None:
        self._table = Table(base.forwarder)
        self._addresses = base.addresses
        self._served = base.served
        self._exchanges: dict[str, Exchange] = {}  # by identity
        self._bindings: dict[str, tuple[str, int]] = {}  # exchange and number in it, by the binding's identity

    def configure(self, change: msgspec.Struct) -> None:
        """Replace the exchanges by those of a `SetRouting`. Unchanged ones keep their counts."""
        if not isinstance(change, SetRouting):
            return
        wanted = {one.identity: one for one in change.routing.exchanges}
        for identity, exchange in list(self._exchanges.items()):
            if identity not in wanted:
                self._remove(identity, exchange)
        for identity, setup in wanted.items():
            known = self._exchanges.get(identity)
            if known is None or known.setup != setup:
                self._put(identity, setup, known)
        self._bindings = {
            binding.identity: (identity, number)
            for identity, setup in wanted.items()
            for number, binding in enumerate(setup.bindings)
        }

    def counts(self, identity: str) -> tuple[int, int, int, int, list[int]]:
        """Return the messages received, forwarded, diverted and dropped, and the matches of each binding."""
        exchange = self._exchanges.get(identity)
        try:
            return NO_COUNTS if exchange is None else self._table.counts(exchange.address.handle)
        except KeyError:
            return NO_COUNTS  # the core removed it while the agent's thread asked

    def matched(self, binding: str) -> int:
        """Return the messages that a binding has matched, by its identity."""
        exchange, number = self._bindings.get(binding, ("", 0))
        counted = self.counts(exchange)[4]
        return counted[number] if number < len(counted) else 0

    def _put(self, identity: str, setup: ExchangeSetup, known: Exchange | None) -> None:
        """Make an exchange or change its bindings. Any other change gives it another identity."""
        matched = {}
        if known is not None:
            counted = self.counts(identity)[4]
            matched = dict(zip((one.identity for one in known.setup.bindings), counted, strict=True))
        hops = dict.fromkeys((one.next_hop, one.phase) for one in setup.bindings)
        if setup.alternate:
            hops[setup.alternate, setup.alternate_phase] = None
        numbers = {hop: number for number, hop in enumerate(hops)}
        nodes, ends = compile_keys((one.key for one in setup.bindings), setup.method)
        address = self._addresses.resolve(setup.address, phase=setup.phase)
        targets = [self._addresses.resolve(text, phase=phase) for text, phase in hops]
        self._table.put(
            address.handle,
            SEPARATORS[setup.method],
            nodes,
            [
                (end, numbers[one.next_hop, one.phase], matched.get(one.identity, 0))
                for end, one in zip(ends, setup.bindings, strict=True)
            ],
            [(target.handle, _reported(target, text)) for target, (text, _) in zip(targets, hops, strict=True)],
            numbers[setup.alternate, setup.alternate_phase] if setup.alternate else None,
        )
        self._exchanges[identity] = Exchange(setup, address, targets)
        for target in targets:
            self._served(target, 1, True)
        if known is None:
            self._served(address, 1, False)
            LOGGER.debug("exchange %s with %d bindings", setup.address, len(setup.bindings))
        else:
            self._leave(known.hops)

    def _remove(self, identity: str, exchange: Exchange) -> None:
        del self._exchanges[identity]
        self._table.remove(exchange.address.handle)
        self._served(exchange.address, -1, False)
        self._leave(exchange.hops)
        self._addresses.forget_idle(exchange.address)

    def _leave(self, hops: list[Address]) -> None:
        for hop in hops:
            self._served(hop, -1, True)
            self._addresses.forget_idle(hop)


def _reported(address: Address, text: str) -> bytes:
    """Return an address as other routers get it, in UTF-8."""
    spelled = mobile_text(address.key) if address.key[0] == "M" else text
    return spelled.encode("utf-8", "surrogateescape")
