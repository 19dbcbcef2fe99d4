"""What every entity type offers the agent: a schema, rows, and the operations it allows.

A noun is a table: columns that say how a row gives their value. Rows are read in the agent's thread while the
core goes on forwarding, so a row may be gone when its columns are read: its values are None then.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from core.management.request import (
    BAD_REQUEST,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    ManagementError,
    Request,
    Response,
)
from shm.contract.management import PREFIX, AttributeSchema, TypeSchema


class Column(msgspec.Struct, frozen=True):
    """One attribute of an operational entity and how its value is read from a row."""

    name: str
    kind: str
    description: str
    read: Callable[[Any], Any]
    update: bool = False


def type_schema(
    name: str, description: str, columns: Iterable[Column], operations: Sequence[str] = ("READ",)
) -> TypeSchema:
    """The schema of an entity type that is not configured."""
    return TypeSchema(
        name,
        description,
        [AttributeSchema(c.name, c.kind, c.description, update=c.update) for c in columns],
        list(operations),
    )


class EntityType:
    """An entity type. ``lenient``: a QUERY for an unknown attribute gives an empty column, not an error;
    ``listed``: a QUERY for all types has its entities."""

    lenient = False
    listed = True

    def __init__(self, schema: TypeSchema, columns: dict[str, Callable[[Any], Any]]) -> None:
        self.schema = schema
        self.columns = columns
        self.standard = list(columns)  # those a QUERY that names none gets

    def rows(self) -> Iterable[Any]:
        """The entities, in a stable order."""
        raise NotImplementedError

    def prepare(self, page: list[Any], names: list[str]) -> None:
        """Get what the rows of a page of entities need of others for these columns."""

    def row(self, entity: Any) -> Any:
        """What the columns of an entity are read from; made for the entities of the page asked for only."""
        return entity

    # ---- what a request may ask for ----

    def query(self, names: list[str], offset: int, count: int | None) -> tuple[list[str], list[list[Any]]]:
        """Columns and their values for a page of the entities; no names: all attributes."""
        names = names or self.standard
        unknown = [name for name in names if name not in self.columns]
        if unknown and not self.lenient:
            raise ManagementError(
                NOT_FOUND, f"{self.schema.name} has no attribute {', '.join(map(repr, unknown[:10]))}"
            )
        reads = [self.columns.get(name, _nothing) for name in names]
        last = None if count is None else offset + count
        rows = self.rows()
        page = list(rows[offset:last] if isinstance(rows, Sequence) else list(rows)[offset:last])
        self.prepare(page, names)
        return names, [[read(row) for read in reads] for row in map(self.row, page)]

    def values(self, row: Any) -> dict[str, Any]:
        """All attributes of a row that have a value, and its type."""
        return {name: value for name, read in self.columns.items() if (value := read(row)) is not None} | {
            "type": self.schema.long_name
        }

    def find(self, name: str | None, identity: str | None) -> Any:
        """The row of that identity or name. Raises ManagementError."""
        if name is None and identity is None:
            raise ManagementError(
                BAD_REQUEST, f"No name or identity provided; give that of one {self.schema.name}"
            )
        for entity in self.rows():
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
        """READ."""
        return Response(200, self.values(self.find(request.name, request.identity)))

    def create(self, request: Request) -> Response:
        """CREATE."""
        raise self.cannot("CREATE")

    def update(self, request: Request) -> Response:
        """UPDATE."""
        raise self.cannot("UPDATE")

    def delete(self, request: Request) -> Response:
        """DELETE."""
        raise self.cannot("DELETE")

    def cannot(self, operation: str) -> ManagementError:
        """The answer to what this entity type does not do."""
        able = [one for one in self.schema.operations if one != operation]
        return ManagementError(
            NOT_IMPLEMENTED,
            f"{operation} is not implemented for {self.schema.name}; it has {', '.join(able) or 'none'}",
        )


class Table(EntityType):
    """An operational entity type, declared by its columns. Unknown attributes are empty columns."""

    lenient = True
    NAME = ""
    DESCRIPTION = ""
    COLUMNS: Sequence[Column] = ()
    OPERATIONS: Sequence[str] = ("READ",)

    def __init__(self) -> None:
        super().__init__(
            type_schema(self.NAME, self.DESCRIPTION, self.COLUMNS, self.OPERATIONS),
            {column.name: column.read for column in self.COLUMNS},
        )


def constant(value: Any) -> Callable[[Any], Any]:
    """A column that is the same in every row."""
    return lambda row: value


def type_column(name: str) -> Column:
    """The column `type`."""
    return Column("type", "string", "Type of the entity.", constant(PREFIX + name))


_nothing: Final = constant(None)
