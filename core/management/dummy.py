"""The entity type `dummy`: entities without meaning, for trying a management client."""

from typing import Any, Final

from core.management.configured import column
from core.management.entity_type import EntityType
from core.management.request import (
    BAD_REQUEST,
    CREATED,
    NO_CONTENT,
    OK,
    ManagementError,
    Request,
    Response,
    whole_number,
)
from core.management.view import View
from shm.contract.management import AttributeSchema, TypeSchema

MOST: Final = 1000  # entities, which are kept in memory
LONGEST: Final = 4096  # characters of a string
_KINDS: Final = {"arg1": "string", "arg2": "string", "num1": "integer", "num2": "integer"}
_NAMES: Final = ("name", "identity", "type", *_KINDS)


class Dummy(EntityType):
    """Entities that requests create, read, change, delete and call, without effect on the router."""

    def __init__(self, view: View) -> None:
        attributes = [
            AttributeSchema("name", "string", "Name of the entity.", create=True),
            AttributeSchema("identity", "string", "dummy/ and a number."),
            AttributeSchema("type", "string", "Type of the entity."),
            *(AttributeSchema(name, kind, "For any use.", create=True, update=True) for name, kind in _KINDS.items()),
        ]
        operations = ["CREATE", "READ", "UPDATE", "DELETE", "CALLME"]
        description = "An entity without effect, for trying a management client."
        schema = TypeSchema("dummy", description, attributes, operations)
        super().__init__(view, schema, {name: column(name) for name in _NAMES})
        self._entities: dict[str, dict[str, Any]] = {}
        self._made = 0

    def rows(self) -> list[dict[str, Any]]:
        return list(self._entities.values())

    def create(self, request: Request) -> Response:
        """Create one. Its name defaults to its identity."""
        if len(self._entities) >= MOST:
            raise ManagementError(BAD_REQUEST, f"there are {MOST} already; delete some")
        given = self._checked(request.attributes)
        identity = f"dummy/{self._made}"
        name = _value("name", request.name or given.pop("name", None) or identity)
        if any(row["name"] == name for row in self._entities.values()):
            raise ManagementError(BAD_REQUEST, f"there is a dummy with the name {name!r} already")
        self._made += 1
        row = {"name": name, "identity": identity, "type": self.schema.long_name}
        self._entities[identity] = row | {name: given[name] for name in _KINDS if name in given}
        return Response(CREATED, self.values(self._entities[identity]))

    def update(self, request: Request) -> Response:
        """Change the given attributes."""
        row = self.find(request.name, request.identity)
        given = self._checked(request.attributes)
        fixed = [name for name in ("name", "identity") if given.get(name, row[name]) != row[name]]
        if fixed:
            raise ManagementError(BAD_REQUEST, f"{fixed[0]} of a dummy cannot be changed")
        row.update((name, given[name]) for name in _KINDS if name in given)
        return Response(OK, self.values(row))

    def delete(self, request: Request) -> Response:
        """Delete one."""
        del self._entities[self.find(request.name, request.identity)["identity"]]
        return Response(NO_CONTENT, {})

    def call(self, request: Request) -> Response:
        """CALLME: return the request's own application properties."""
        self.find(request.name, request.identity)
        return Response(OK, dict(request.properties))

    def _checked(self, given: dict[str, Any]) -> dict[str, Any]:
        unknown = [name for name in given if name not in _NAMES]
        if unknown:
            raise ManagementError(BAD_REQUEST, f"dummy has no attribute {unknown[0]!r}")
        return {name: _value(name, value) for name, value in given.items() if value is not None}


def _value(name: str, value: Any) -> Any:
    if _KINDS.get(name) == "integer":
        return whole_number(name, value)
    if not isinstance(value, str) or len(value) > LONGEST:
        raise ManagementError(BAD_REQUEST, f"{name} must be a string of at most {LONGEST} characters")
    return str(value)
