"""The configured entities of one type, found by identity or name in a time that does not grow with them."""

from collections.abc import Iterable
from typing import Any

from core.links.named import Named
from shm.contract.management import Delta

Row = dict[str, Any]  # an entity: attributes by name


class Entities:
    """The entities of one type. The core's thread changes them while the agent's thread reads."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows = list(rows)
        self._identified: dict[str, Row] = {}
        self._named = Named[str]()  # identities
        self._enter(self.rows)

    def find(self, name: str | None, identity: str | None) -> list[Row]:
        """Return the entity with this identity or, if that is None, those of this name."""
        identities = self._named.of(name or "") if identity is None else [identity]
        return [row for one in identities if (row := self._identified.get(one)) is not None]

    def change(self, delta: Delta) -> None:
        """Apply a change. A query sees all of it or none, a READ each entity as it was or as it is."""
        place = slice(delta.start, delta.start + delta.count)
        gone, self.rows[place] = self.rows[place], delta.rows
        self._enter(delta.rows)
        names = {row["identity"]: row.get("name") for row in delta.rows}
        for row in gone:
            identity, name = row["identity"], row.get("name")
            if identity not in names:
                del self._identified[identity]
            if name is not None and names.get(identity) != name:
                self._named.remove(name, identity)

    def _enter(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._identified[row["identity"]] = row
            if row.get("name") is not None:
                self._named.add(row["name"], row["identity"])
