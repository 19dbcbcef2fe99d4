"""MAU of qpid-dispatch (version 1), which routerds also use between themselves.

An entry is an address's key with class and phase (`M0orders`). A parallel list holds treatments as hints.
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
    """Decode the entries of ``add`` or ``exist``, with their treatments.

    Hints are ignored if their number differs from that of the entries. Raises BadMessageError.
    """
    keys = fields.sequence(name, most)
    hints = fields.sequence("hints", most) if "hints" in fields else []
    if not all(isinstance(key, str) for key in keys):
        raise BadMessageError(f"its {name} contains an invalid address")
    if len(hints) != len(keys):
        return {key: UNKNOWN for key in keys if is_key(key)}
    return {key: _treatment(hint) for key, hint in zip(keys, hints, strict=True) if is_key(key)}


def gone(fields: Fields, most: int) -> tuple[str, ...]:
    """Decode the entries of ``del``. Raises BadMessageError."""
    keys = fields.sequence("del", most)
    if not all(isinstance(key, str) for key in keys):
        raise BadMessageError("its del contains an invalid address")
    return tuple(keys)


def all_of(addresses: Mapping[str, int]) -> dict[str, wire.Encoded]:
    return {"exist": _keys(addresses), "hints": _hints(addresses)}


def changes(added: Mapping[str, int], removed: Iterable[str]) -> dict[str, wire.Encoded]:
    return {"hints": _hints(added), "add": _keys(added), "del": _keys(removed)}


def _keys(keys: Iterable[str]) -> wire.Encoded:
    return wire.sequence(map(wire.string, keys))


def _hints(addresses: Mapping[str, int]) -> wire.Encoded:
    return wire.sequence(map(wire.integer, addresses.values()))


def _treatment(hint: object) -> int:
    return hint if type(hint) is int and FLOOD <= hint <= UNAVAILABLE else UNKNOWN


def is_key(key: str) -> bool:
    """Whether routers exchange keys of this class. Others are ignored."""
    return len(key) > (2 if key[:1] == "M" else 1) and key[0] in CLASSES
