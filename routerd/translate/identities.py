"""Identities of configured entities in management; an entity keeps its own while it exists."""

from collections.abc import Iterable

import msgspec

from routerd.config.entities.attribute import Entity
from routerd.config.entities.schema import TYPE_OF, EntityType

# Entity types that have numbers for identities, as in qdrouterd; the others have names.
NUMBERED = frozenset({
    "router.config.address", "router.config.linkRoute", "router.config.autoLink", "router.config.exchange",
    "router.config.binding",
})  # fmt: skip


class Identities:
    """Assigns identities. A number is never used again and survives a reload."""

    def __init__(self) -> None:
        self._last = 0
        self._numbers: dict[tuple[bytes, int], int] = {}

    def of(self, entities: Iterable[Entity]) -> list[str]:
        """Return the identity of each entity of a configuration; remember only these entities' numbers."""
        seen: dict[bytes | str, int] = {}
        numbers: dict[tuple[bytes, int], int] = {}
        found: list[str] = []
        for entity in entities:
            kind = TYPE_OF[type(entity)]
            if kind.name in NUMBERED:
                key = msgspec.msgpack.encode(msgspec.structs.replace(entity, line=0))
                repeated = seen[key] = seen.get(key, -1) + 1
                numbers[key, repeated] = number = self._numbers.get((key, repeated)) or self._next()
                found.append(str(number))
                continue
            identity = f"{kind.short_name}/{_identifier(entity, kind)}"
            repeated = seen[identity] = seen.get(identity, -1) + 1
            found.append(f"{identity}/{repeated}" if repeated else identity)
        self._numbers = numbers
        return found

    def _next(self) -> int:
        self._last += 1
        return self._last


def _identifier(entity: Entity, kind: EntityType) -> str:
    """Return what identifies an entity within its type: its host and port, module, host name, id or name."""
    host, port = getattr(entity, "host", None), getattr(entity, "port", None)
    if host is not None and port is not None:
        return ":".join([host or "0.0.0.0", port, *([entity.name] if entity.name else [])])  # noqa: S104  a name, no socket
    for field in ("module", "hostname", "id", "name", "address"):
        if value := getattr(entity, field, None):
            return str(value)
    return "0"
