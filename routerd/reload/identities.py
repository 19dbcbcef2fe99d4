"""What configured entities are called in management: the same as long as they are there."""

from collections.abc import Iterable

import msgspec

from routerd.config.attribute import Entity
from routerd.config.schema import TYPE_OF, EntityType

# Entity types whose entities are numbered, as in qdrouterd; the others go by what they are.
NUMBERED = frozenset({
    "router.config.address", "router.config.linkRoute", "router.config.autoLink", "router.config.exchange",
    "router.config.binding",
})  # fmt: skip


class Identities:
    """Gives identities. Numbers are never used again, and stay when the file is read again."""

    def __init__(self) -> None:
        self._last = 0
        self._numbers: dict[tuple[bytes, int], int] = {}

    def of(self, entities: Iterable[Entity]) -> list[str]:
        """The identity of each entity of a configuration; only the numbers of these are remembered."""
        seen: dict[bytes | str, int] = {}
        numbers: dict[tuple[bytes, int], int] = {}
        found: list[str] = []
        for entity in entities:
            kind = TYPE_OF[type(entity)]
            if kind.name in NUMBERED:
                key = msgspec.msgpack.encode(msgspec.structs.replace(entity, line=0))
                twins = seen[key] = seen.get(key, -1) + 1
                numbers[key, twins] = number = self._numbers.get((key, twins)) or self._next()
                found.append(str(number))
                continue
            identity = f"{kind.short_name}/{_identifier(entity, kind)}"
            twins = seen[identity] = seen.get(identity, -1) + 1
            found.append(f"{identity}/{twins}" if twins else identity)
        self._numbers = numbers
        return found

    def _next(self) -> int:
        self._last += 1
        return self._last


def _identifier(entity: Entity, kind: EntityType) -> str:
    """What tells entities of a type apart: where they are, the module, the host name, or their name."""
    host, port = getattr(entity, "host", None), getattr(entity, "port", None)
    if host is not None and port is not None:
        return ":".join([host or "0.0.0.0", port, *([entity.name] if entity.name else [])])  # noqa: S104  a name, no socket
    for field in ("module", "hostname", "id", "name", "address"):
        if value := getattr(entity, field, None):
            return str(value)
    return "0"
