"""MAU as qpid-dispatch has it (version 1), and routerd among its own.

An entry is the key of an address with class and phase (`M0orders`); treatments stand beside them as hints.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from core.amqp import codec as wire
from core.interior.message import BadMessageError, Fields

VERSION: Final = 1

FLOOD, MULTICAST, CLOSEST, BALANCED, LINK_BALANCED, UNAVAILABLE = range(6)
UNKNOWN: Final = -1
CLASSES: Final = "MCDEFH"


def present(fields: Fields, name: str, most: int) -> dict[str, int]:
    """The entries of ``add`` or ``exist``; hints that are not as many are no hints. Raises
    BadMessageError.
    """
    keys = fields.sequence(name, most)
    hints = fields.sequence("hints", most) if "hints" in fields else []
    if not all(isinstance(key, str) for key in keys):
        raise BadMessageError(f"its {name} has what is no address")
    if len(hints) != len(keys):
        return {key: UNKNOWN for key in keys if is_key(key)}
    return {key: _treatment(hint) for key, hint in zip(keys, hints, strict=True) if is_key(key)}


def gone(fields: Fields, most: int) -> tuple[str, ...]:
    """The entries of ``del``. Raises BadMessageError."""
    keys = fields.sequence("del", most)
    if not all(isinstance(key, str) for key in keys):
        raise BadMessageError("its del has what is no address")
    return tuple(keys)


def all_of(addresses: Mapping[str, int]) -> Iterable[tuple[str, bytes]]:
    return (("exist", _keys(addresses)), ("hints", _hints(addresses)))


def changes(added: Mapping[str, int], removed: Iterable[str]) -> Iterable[tuple[str, bytes]]:
    return (("hints", _hints(added)), ("add", _keys(added)), ("del", _keys(removed)))


def _keys(keys: Iterable[str]) -> bytes:
    return wire.sequence(map(wire.string, keys))


def _hints(addresses: Mapping[str, int]) -> bytes:
    return wire.sequence(map(wire.integer, addresses.values()))


def _treatment(hint: object) -> int:
    return hint if type(hint) is int and FLOOD <= hint <= UNAVAILABLE else UNKNOWN


def is_key(key: str) -> bool:
    """Whether it is of a class that routers tell each other; those of other classes are passed over."""
    return len(key) > (2 if key[:1] == "M" else 1) and key[0] in CLASSES
