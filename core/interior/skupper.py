"""MAU of skupper-router (version 2): entries are lists, and keys have no phase.

An entry is `[key, treatment, count of senders]`, and in ``del`` `[key]`. linkBalanced is no treatment there.
Addresses that one dialect cannot express (link routes, phases, other networks) are not sent to its side.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from core.amqp import codec as wire
from core.interior.message import BadMessageError, Fields

VERSION: Final = 2

# By our numbers, which are qpid-dispatch's. The receiver's configuration decides about others.
_TREATMENTS: Final = {0: 0, 1: 1, 2: 2, 3: 3, 5: 4}
_OURS: Final = {theirs: ours for ours, theirs in _TREATMENTS.items()}
_UNKNOWN: Final = -1
_NO_SENDERS: Final = 0


def to_skupper(key: str) -> str | None:
    """Return a key in skupper-router's spelling, or None if it has no such addresses."""
    if key.startswith("M0"):
        return f"M{key[2:]}"
    return key if key.startswith("H") else None


def from_skupper(key: str) -> str | None:
    """Return a key of skupper-router in the usual spelling, or None if others have no such addresses."""
    if key.startswith("M") and len(key) > 1:
        return f"M0{key[1:]}"
    return key if key.startswith("H") and len(key) > 1 else None


def present(fields: Fields, name: str, most: int) -> dict[str, int]:
    """Decode the entries of ``add`` or ``exist``. Raises BadMessageError."""
    result: dict[str, int] = {}
    for entry in _entries(fields, name, most):
        key = from_skupper(entry[0])
        if key is not None:
            hint = entry[1] if len(entry) > 1 else _UNKNOWN
            result[key] = _OURS.get(hint, _UNKNOWN) if type(hint) is int else _UNKNOWN
    return result


def gone(fields: Fields, most: int) -> tuple[str, ...]:
    """Decode the entries of ``del``. Raises BadMessageError."""
    keys = (from_skupper(entry[0]) for entry in _entries(fields, "del", most))
    return tuple(key for key in keys if key is not None)


def _entries(fields: Fields, name: str, most: int) -> list[list[Any]]:
    entries = fields.sequence(name, most)
    if not all(isinstance(entry, list) and entry and isinstance(entry[0], str) for entry in entries):
        raise BadMessageError(f"its {name} contains an invalid address")
    return entries


def all_of(addresses: Mapping[str, int]) -> dict[str, wire.Encoded]:
    return {"exist": _with_treatments(addresses)}


def changes(added: Mapping[str, int], removed: Iterable[str]) -> dict[str, wire.Encoded]:
    keys = (key for key in map(to_skupper, removed) if key is not None)
    return {"add": _with_treatments(added), "del": wire.sequence(wire.sequence([wire.string(key)]) for key in keys)}


def _with_treatments(addresses: Mapping[str, int]) -> wire.Encoded:
    return wire.sequence(
        wire.sequence((wire.string(key), wire.integer(_TREATMENTS.get(treatment, _UNKNOWN)), wire.integer(_NO_SENDERS)))
        for ours, treatment in addresses.items()
        if (key := to_skupper(ours)) is not None
    )
