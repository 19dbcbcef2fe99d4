"""What the configuration wants of brokers, by the connections that it names."""

from itertools import chain
from typing import Generic, TypeVar

from shm.contract.payloads import ConnectionOpened

Wanted = TypeVar("Wanted")


class ByBroker(Generic[Wanted]):
    """Auto links or link routes, found by the container of a connection, or by its connector or listener."""

    def __init__(self) -> None:
        self._named: dict[tuple[bool, str | None], dict[str, tuple[int, Wanted]]] = {}
        self._added = 0

    def add(self, identity: str, container: str | None, connection: str | None, one: Wanted) -> None:
        """Add one that names a container or, if that is None, a connector or listener."""
        self._added += 1
        self._named.setdefault(_key(container, connection), {})[identity] = self._added, one

    def remove(self, identity: str, container: str | None, connection: str | None) -> None:
        """Remove what `add` added."""
        key = _key(container, connection)
        del self._named[key][identity]
        if not self._named[key]:
            del self._named[key]

    def of(self, opened: ConnectionOpened) -> list[Wanted]:
        """Return those that name this connection, in the order of `add`."""
        keys = {(True, opened.container), (False, opened.connector), (False, opened.listener)}
        tables = [table for key in keys if (table := self._named.get(key))]
        if len(tables) == 1:  # each is in that order
            return [one for _, one in tables[0].values()]
        found = chain.from_iterable(table.values() for table in tables)
        return [one for _, one in sorted(found, key=lambda each: each[0])]


def _key(container: str | None, connection: str | None) -> tuple[bool, str | None]:
    return (False, connection) if container is None else (True, container)
