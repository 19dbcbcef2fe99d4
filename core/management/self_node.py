"""The management node itself: GET-TYPES and similar operations, QUERY over all types, GET-LOG."""

import json
from collections.abc import Callable, Iterator
from cProfile import Profile
from difflib import get_close_matches
from io import StringIO
from itertools import islice
from pstats import Stats
from typing import Any

from core.management.choice import choice_of
from core.management.entity_type import EntityType
from core.management.recent import Recent
from core.management.request import (
    BAD_REQUEST,
    MOST_VALUES,
    NOT_FOUND,
    OK,
    ManagementError,
    Request,
    Response,
    TooLongError,
    whole_number,
)
from shm.contract.management import PREFIX, AttributeSchema, TypeSchema

NAME = "self"
PROFILED = 50  # functions in a profile
TYPES = ("org.amqp.management", "management")
OPERATIONS = [
    "QUERY", "GET-TYPES", "GET-ATTRIBUTES", "GET-OPERATIONS", "GET-ANNOTATIONS", "GET-MGMT-NODES",
    "GET-SCHEMA", "GET-JSON-SCHEMA", "GET-LOG", "PROFILE",
]  # fmt: skip

_BASES = {
    "router", "listener", "connector", "log", "policy", "vhost", "sslProfile", "authServicePlugin", "console",
}  # fmt: skip


# Types without entities of their own: their bases, and their operations.
_ABSTRACT: dict[str, tuple[list[str], list[str]]] = {
    "entity": ([], []),
    "configurationEntity": (["entity"], ["READ"]),
    "operationalEntity": (["entity"], ["READ"]),
    "org.amqp.management": (["operationalEntity", "entity"], [*OPERATIONS[:6], "READ"]),
    "management": (["org.amqp.management", "operationalEntity", "entity"], [*OPERATIONS, "READ"]),
}


class SelfNode:
    """Serves operations that concern the agent and not an entity."""

    def __init__(self, entity_types: dict[str, EntityType], recent: Recent) -> None:
        self._entity_types = entity_types
        self._recent = recent
        self.operations: dict[str, Callable[[Request], Response]] = {
            "QUERY": self._query, "GET-TYPES": self._types, "GET-ATTRIBUTES": self._attributes,
            "GET-OPERATIONS": self._operations, "GET-ANNOTATIONS": self._annotations,
            "GET-MGMT-NODES": self._nodes, "GET-SCHEMA": self._schema, "GET-JSON-SCHEMA": self._json_schema,
            "GET-LOG": self._log, "PROFILE": self._profile, "READ": self._read,
        }  # fmt: skip
        self._profiler: Profile | None = None

    def entity_type(self, name: str) -> EntityType:
        """Return the entity type of this name. Raises ManagementError."""
        if (entity_type := self._entity_types.get(name)) is None:
            known = {one.rpartition(".")[2]: one for one in self._entity_types} | dict(
                zip(self._entity_types, self._entity_types, strict=True)
            )
            guess = get_close_matches(name[:100], known, n=1)
            instead = f"; did you mean {known[guess[0]]}?" if guess else "; GET-TYPES names them all"
            raise ManagementError(BAD_REQUEST, f"there is no entity type {name!r}{instead}")
        return entity_type

    def _asked(self, request: Request) -> list[EntityType]:
        """Return the entity types that a request concerns: one, or all."""
        if request.entity_type is None:
            return list(self._entity_types.values())
        if request.entity_type in TYPES:
            return []
        if request.entity_type in _ABSTRACT:
            base = PREFIX + request.entity_type
            return [entity_type for entity_type in self._entity_types.values() if base in _base(entity_type.schema)]
        return [self.entity_type(request.entity_type)]

    def _query(self, request: Request) -> Response:
        names = request.attributes.get("attributeNames") or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ManagementError(BAD_REQUEST, "attributeNames must be a list of strings")
        names = [str(name) for name in names]
        choice = choice_of(request.attributes)
        entity_types = self._asked(request)
        if request.entity_type in TYPES or request.entity_type not in {None, *_ABSTRACT}:
            if not entity_types:
                return _page(names or ["name", "identity", "type"], [[NAME, NAME, TYPES[0]]], request)
            names, results, total = entity_types[0].query(names, request.offset, request.count, choice)
            found = {"attributeNames": names, "results": results}
            return Response(OK, found if choice is None else found | {"total": total})
        if choice is not None:
            raise ManagementError(BAD_REQUEST, "a QUERY chooses among the entities of one type; give its entityType")
        return self._query_all(names, entity_types, request)

    def _query_all(self, names: list[str], entity_types: list[EntityType], request: Request) -> Response:
        """Query all entities that have one of the attributes, but not of types that clients fill.

        Only the page is kept. Raises ManagementError, also for more values than a response may have.
        """
        known = {name for entity_type in entity_types for name in entity_type.columns}
        entity_types = [entity_type for entity_type in entity_types if entity_type.listed]
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ManagementError(NOT_FOUND, f"no entity has an attribute {', '.join(map(repr, unknown[:10]))}")
        names = names or list(dict.fromkeys(name for entity_type in entity_types for name in entity_type.columns))
        rows = self._rows_of_all(names, entity_types)
        results: list[list[Any]] = []
        for row in islice(islice(rows, request.offset, None), request.count):
            results.append(row)
            if len(results) * len(names) > MOST_VALUES:
                raise TooLongError
        return Response(OK, {"attributeNames": names, "results": results})

    def _rows_of_all(self, names: list[str], entity_types: list[EntityType]) -> Iterator[list[Any]]:
        for entity_type in entity_types:
            reads = [_named(entity_type) if name == "name" else entity_type.columns.get(name) for name in names]
            entities = list(entity_type.rows())
            entity_type.prepare(entities, names)
            for row in entity_type.portions(entities):
                values = [None if read is None else read(row) for read in reads]
                if any(value is not None for value in values):
                    yield values

    def _types(self, request: Request) -> Response:
        bases = {entity_type.schema.name: _base(entity_type.schema) for entity_type in self._asked(request)}
        found = {PREFIX + name: base for name, base in bases.items()}
        return Response(OK, found | {name: bases for name, bases, _ in _abstract(request)})

    def _attributes(self, request: Request) -> Response:
        found = {entity_type.schema.long_name: list(entity_type.columns) for entity_type in self._asked(request)}
        return Response(OK, found | {name: ["name", "identity", "type"] for name, _, _ in _abstract(request)})

    def _operations(self, request: Request) -> Response:
        found = {
            entity_type.schema.long_name: list(entity_type.schema.operations) for entity_type in self._asked(request)
        }
        return Response(OK, found | {name: operations for name, _, operations in _abstract(request)})

    def _annotations(self, request: Request) -> Response:
        self._asked(request)
        return Response(OK, {})

    def _nodes(self, request: Request) -> Response:
        entity_type = self.entity_type("router.node")
        return Response(OK, [f"{entity_type.columns['address'](row)}/$management" for row in entity_type.rows()])

    def _schema(self, request: Request) -> Response:
        types = {entity_type.schema.name: _dump_type(entity_type.schema) for entity_type in self._entity_types.values()}
        return Response(OK, {"prefix": PREFIX.removesuffix("."), "entityTypes": types})

    def _json_schema(self, request: Request) -> Response:
        return Response(OK, json.dumps(self._schema(request).body, indent=_number(request, "indent")))

    def _log(self, request: Request) -> Response:
        return Response(OK, self._recent.last(_number(request, "limit")))

    def _profile(self, request: Request) -> Response:
        """Profile the agent between a request with ``start`` and one with ``stop``."""
        if "start" in request.properties:
            self._profiler = self._profiler or Profile()
            self._profiler.enable()
            return Response(OK, None)
        if self._profiler is None or "stop" not in request.properties:
            text = "give the property start, and later stop to get the profile of the agent's thread"
            raise ManagementError(BAD_REQUEST, text)
        profiler, self._profiler = self._profiler, None
        profiler.disable()
        out = StringIO()
        Stats(profiler, stream=out).sort_stats("cumulative").print_stats(PROFILED)
        return Response(OK, out.getvalue())

    def _read(self, request: Request) -> Response:
        return Response(
            OK, {"name": NAME, "identity": NAME, "type": TYPES[0], "management": request.requester.management}
        )


def _abstract(request: Request) -> list[tuple[str, list[str], list[str]]]:
    """Return name, bases and operations of the abstract types that a request concerns."""
    return [
        (PREFIX + name, [PREFIX + base for base in bases], operations)
        for name, (bases, operations) in _ABSTRACT.items()
        if request.entity_type is None or (request.entity_type == name and name in TYPES)
    ]


def _named(entity_type: EntityType) -> Callable[[Any], Any]:
    """Return the reader of an entity's name, or of its type and identity if it has none."""
    columns = entity_type.columns

    def read(row: Any) -> Any:
        return columns["name"](row) or f"{entity_type.schema.name}/{columns['identity'](row)}"

    return read


def _page(names: list[str], results: list[list[Any]], request: Request) -> Response:
    last = None if request.count is None else request.offset + request.count
    return Response(OK, {"attributeNames": names, "results": results[request.offset : last]})


def _number(request: Request, name: str) -> int | None:
    value = request.properties.get(name)
    number = None if value is None else whole_number(name, value)
    if number is not None and number < 0:
        raise ManagementError(BAD_REQUEST, f"{name} must be a whole number from 0 upwards")
    return number


def _base(schema: TypeSchema) -> list[str]:
    configured = schema.name in _BASES or schema.name.startswith("router.config.")
    return [PREFIX + ("configurationEntity" if configured else "operationalEntity"), PREFIX + "entity"]


def _dump_type(schema: TypeSchema) -> dict[str, Any]:
    dump: dict[str, Any] = {
        "attributes": {a.name: _dump_attribute(a) for a in schema.attributes if a.name != "type"},
        "operations": schema.operations,
        "description": schema.description,
        "fullyQualifiedType": schema.long_name,
    }
    return dump | ({"singleton": True} if schema.singleton else {})


def _dump_attribute(attribute: AttributeSchema) -> dict[str, Any]:
    dump: dict[str, Any] = {
        "type": list(attribute.choices) or attribute.kind,
        "default": attribute.default,
        "required": attribute.required or None,
        "deprecated": attribute.deprecated or None,
        "create": attribute.create or None,
        "update": attribute.update or None,
        "description": attribute.description,
    }
    return {name: value for name, value in dump.items() if value is not None}
