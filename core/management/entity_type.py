"""What every entity type offers the agent: a schema, rows and operations.

An entity type is a table whose columns read their values from a row. The agent's thread reads rows while the
core goes on forwarding, so an entity may be gone when its columns are read; its values are then None.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from core.management.choice import MOST_ROWS, Choice
from core.management.request import (
    BAD_REQUEST,
    MOST_VALUES,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    ManagementError,
    Request,
    Response,
    TooLongError,
)
from core.management.view import View
from shm.contract.management import PREFIX, AttributeSchema, TypeSchema


class Column(msgspec.Struct, frozen=True):
    """One attribute of an operational entity, and the function that reads its value from a row."""

    name: str
    kind: str
    description: str
    read: Callable[[Any], Any]
    update: bool = False


class EntityType:
    """An entity type.

    ``lenient``: a QUERY for an unknown attribute returns an empty column instead of an error. ``listed``: a
    QUERY for all types includes its entities.
    """

    lenient = False
    listed = True

    def __init__(self, view: View, schema: TypeSchema, columns: dict[str, Callable[[Any], Any]]) -> None:
        self._view = view
        self.schema = schema
        self.columns = columns
        self.standard = list(columns)  # returned to a QUERY that names no attributes

    def rows(self) -> Iterable[Any]:
        """Return the entities in a stable order."""
        raise NotImplementedError

    def prepare(self, page: list[Any], names: list[str]) -> None:
        """Fetch what the rows of a page need from other processes for these columns."""

    def portions(self, entities: Iterable[Any]) -> Iterator[Any]:
        """Yield what the entities' columns are read from, and give way to the core's thread before each."""
        return map(self.row, self._view.portions(entities))

    def row(self, entity: Any) -> Any:
        """Return what an entity's columns are read from.

        The agent calls it only for entities of the requested page.
        """
        return entity

    # ---- operations ----

    def query(
        self, names: list[str], offset: int, count: int | None, choice: Choice | None = None
    ) -> tuple[list[str], list[list[Any]], int]:
        """Return the names and values of attributes for a page of entities, and how many entities there are in all.

        No names mean all; a choice leaves entities out. Raises ManagementError, also for more values than a response
        may have, before they are read.
        """
        names = names or self.standard
        unknown = [name for name in names if name not in self.columns]
        if unknown and not self.lenient:
            raise ManagementError(
                NOT_FOUND, f"{self.schema.name} has no attribute {', '.join(map(repr, unknown[:10]))}"
            )
        reads = [self.columns.get(name, _nothing) for name in names]
        last = None if count is None else offset + count
        rows = self.rows()
        if not isinstance(rows, Sequence):
            rows = list(rows)
        if choice is not None:
            rows = self._chosen(rows, choice, names)
        if len(range(len(rows))[offset:last]) * len(names) > MOST_VALUES:
            raise TooLongError
        page = list(rows[offset:last])
        self.prepare(page, names)
        return names, [[read(row) for read in reads] for row in self.portions(page)], len(rows)

    def _chosen(self, rows: Sequence[Any], choice: Choice, names: list[str]) -> list[Any]:
        """Return the entities that a choice takes, in its order. Raises ManagementError."""
        if unknown := choice.attributes - self.columns.keys():
            raise ManagementError(NOT_FOUND, f"{self.schema.name} has no attribute {sorted(unknown)[0]!r} to choose by")
        if len(rows) > MOST_ROWS:
            text = f"there are {len(rows)} of {self.schema.name}; a QUERY chooses among {MOST_ROWS} at most"
            raise ManagementError(BAD_REQUEST, f"{text}; ask for pages with offset and count")
        entities = list(rows)
        self.prepare(entities, sorted(choice.attributes))
        return choice.chosen(entities, self.portions, self.columns, names)

    def values(self, row: Any) -> dict[str, Any]:
        """Return the type and all attributes of a row that have a value."""
        return {name: value for name, read in self.columns.items() if (value := read(row)) is not None} | {
            "type": self.schema.long_name
        }

    def among(self, name: str | None, identity: str | None) -> Iterable[Any]:
        """Return the entities that may have this identity and name: all, unless a table knows better."""
        return self.rows()

    def find(self, name: str | None, identity: str | None) -> Any:
        """Return the row of an entity with this identity or name. Raises ManagementError."""
        if name is None and identity is None:
            raise ManagementError(BAD_REQUEST, f"No name or identity provided; give that of one {self.schema.name}")
        for entity in self.among(name, identity):
            row = self.row(entity)
            if identity is not None and str(self.columns["identity"](row)) != identity:
                continue
            if name is not None and self.columns["name"](row) != name:
                continue
            self.prepare([entity], list(self.columns))
            return self.row(entity)
        which = f"identity={identity}" if identity is not None else f"name={name}"
        text = f"No entity with {which} among those of {self.schema.name}"
        raise ManagementError(NOT_FOUND, f"Not Found: {text}" if self.lenient else text)

    def read(self, request: Request) -> Response:
        """READ: return an entity's attributes."""
        return Response(200, self.values(self.find(request.name, request.identity)))

    def create(self, request: Request) -> Response:
        """CREATE: refused unless the entity type overrides it."""
        raise self.cannot("CREATE")

    def update(self, request: Request) -> Response:
        """UPDATE: refused unless the entity type overrides it."""
        raise self.cannot("UPDATE")

    def delete(self, request: Request) -> Response:
        """DELETE: refused unless the entity type overrides it."""
        raise self.cannot("DELETE")

    def cannot(self, operation: str) -> ManagementError:
        """Return the error for an operation that this entity type does not have."""
        able = [one for one in self.schema.operations if one != operation]
        return ManagementError(
            NOT_IMPLEMENTED,
            f"{operation} is not implemented for {self.schema.name}; it has {', '.join(able) or 'none'}",
        )


class Table(EntityType):
    """An operational entity type, declared by its columns. Unknown attributes become empty columns."""

    lenient = True
    NAME = ""
    DESCRIPTION = ""
    COLUMNS: Sequence[Column] = ()
    OPERATIONS: Sequence[str] = ("READ",)

    def __init__(self, view: View) -> None:
        attributes = [AttributeSchema(one.name, one.kind, one.description, update=one.update) for one in self.COLUMNS]
        schema = TypeSchema(self.NAME, self.DESCRIPTION, attributes, list(self.OPERATIONS))
        super().__init__(view, schema, {column.name: column.read for column in self.COLUMNS})


def constant(value: Any) -> Callable[[Any], Any]:
    """Return the reader of a column that is the same in every row."""
    return lambda row: value


def type_column(name: str) -> Column:
    """Return the column `type`."""
    return Column("type", "string", "Type of the entity.", constant(PREFIX + name))


def key_columns(type_name: str, description: str, read: Callable[[Any], Any]) -> tuple[Column, Column, Column]:
    """Return the columns `name`, `identity` and `type` of entities whose identity is their name."""
    name, identity = (Column(attribute, "string", description, read) for attribute in ("name", "identity"))
    return name, identity, type_column(type_name)


def item(attribute: str, kind: str, description: str, key: str | None = None) -> Column:
    """Return the column of an item in a row that is a dict, by the attribute's name or another key."""
    name = attribute if key is None else key
    return Column(attribute, kind, description, lambda row: row.get(name))


def counted(name: str, attribute: str, description: str) -> Column:
    """Return the column of a number in a row's ``info``, 0 if it is missing."""
    return Column(attribute, "integer", description, lambda row: row.info.get(name, 0))


_nothing: Final = constant(None)
