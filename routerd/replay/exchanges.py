"""The exchanges of a replay. A recording says which hops each message matches: they have neither keys nor bindings."""

from typing import Final

from core.forwarder.forward import Exchanges as Table
from core.forwarder.forward import Forwarder
from core.forwarder.forward import Replay as Native
from routerd.replay.recording import Read
from shm.memory import flight

TEXTS_MOST: Final = 1 << 20  # octets of what other routers are told of an exchange's hops


class Exchanges:
    """What calls and messages say of exchanges."""

    def __init__(self, forwarder: Forwarder, native: Native) -> None:
        self._table, self._native = Table(forwarder), native

    def put(self, address: int, hops: list[tuple[int, int]], alternate: int | None) -> None:
        """Make an exchange. ``hops`` are addresses and lengths of texts. Raises ValueError and KeyError."""
        if any(length < 0 for _, length in hops) or sum(length for _, length in hops) > TEXTS_MOST:
            raise ValueError("texts of an exchange's hops are longer than any")
        texts = [(hop, bytes(length)) for hop, length in hops]
        self._table.put(address, b".", [(0, 0, b"")], [], texts, alternate)
        self._native.give_exchange(address)

    def remove(self, address: int) -> None:
        self._table.remove(address)

    def give(self, read: Read) -> None:
        """Say which hops the next message through an exchange matches."""
        self._native.hops(_address(read), bool(read.number), read.hashed, read.detail)

    def over(self, reads: tuple[Read, ...]) -> None:
        """Forget what the messages of a step have not used."""
        for address in {_address(read) for read in reads if read.kind == flight.HOPS}:
            self._native.hops_over(address)


def _address(read: Read) -> int:
    """Return the handle of the address of the exchange that a message passes."""
    return read.length << 32 | read.block
