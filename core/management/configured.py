"""Entity types that stand in the configuration: what the supervisor told of them."""

from collections.abc import Callable
from typing import Any

from core.management.check import checked
from core.management.noun import Noun
from core.management.request import BAD_REQUEST, CREATED, NO_CONTENT, ManagementError, Request, Response
from core.management.view import View
from shm.control import AddressSetup, SetAddresses
from shm.management import PREFIX, TypeSchema

_FROM_SUPERVISOR = "edit the configuration file and reload, or restart, the router"


def column(name: str, otherwise: Any = None) -> Callable[[dict[str, Any]], Any]:
    """The column of an attribute."""
    return lambda row: row.get(name, otherwise)


class Configured(Noun):
    """Entities as configured; they are changed in the configuration file."""

    def __init__(self, view: View, schema: TypeSchema) -> None:
        columns = {a.name: column(a.name, None if a.create else a.default) for a in schema.attributes}
        super().__init__(schema, columns | {"type": lambda row: schema.long_name})
        self._entities = view.management.entities.setdefault(schema.name, [])

    def configure(self, entities: list[dict[str, Any]]) -> None:
        """The entities of a configuration that has been read again."""
        self._entities = entities

    def rows(self) -> list[dict[str, Any]]:
        return list(self._entities)

    def cannot(self, operation: str) -> ManagementError:
        """With what to do instead, for what qdrouterd does at run time."""
        error = super().cannot(operation)
        if operation not in self.schema.operations:
            return error
        return ManagementError(
            error.status, f"{operation} of {self.schema.name} is not implemented yet; {_FROM_SUPERVISOR}"
        )


# qdrouterd's own columns of router.config.address, in its order.
_ADDRESS_COLUMNS = (
    "name", "identity", "type", "prefix", "distribution", "waypoint", "ingressPhase", "egressPhase",
    "pattern", "priority", "fallback",
)  # fmt: skip


class ConfigAddresses(Configured):
    """How addresses are treated; CREATE and DELETE take effect at once, also for addresses in use."""

    lenient = True

    def __init__(self, view: View, schema: TypeSchema) -> None:
        super().__init__(view, schema)
        self.columns = {name: _ADDRESS.get(name, column(name)) for name in _ADDRESS_COLUMNS}
        self.columns["enableFallback"] = column("enableFallback")
        self.standard = list(_ADDRESS_COLUMNS)
        self._view = view
        self._identity = 0
        for entity in self._entities:
            self._identify(entity)

    def _identify(self, entity: dict[str, Any]) -> None:
        self._identity += 1
        if entity.get("name") == entity.get("identity"):
            entity.pop("name", None)  # made up, where the file gives none
        entity["identity"] = str(self._identity)

    def configure(self, entities: list[dict[str, Any]]) -> None:
        """Those that were made by requests are gone: the file is what counts."""
        for entity in entities:
            self._identify(entity)
        super().configure(entities)

    def create(self, request: Request) -> Response:
        """Add a prefix or pattern."""
        entity = checked(self.schema, request.attributes, "CREATE")
        if request.name is not None and entity.setdefault("name", request.name) != request.name:
            raise ManagementError(BAD_REQUEST, "name: the body says another one than the request")
        if ("prefix" in entity) == ("pattern" in entity):
            raise ManagementError(BAD_REQUEST, "give either a prefix or a pattern")
        if any(
            entity.get("name") is not None and entity["name"] == one.get("name") for one in self._entities
        ):
            raise ManagementError(
                BAD_REQUEST, f"there is a router.config.address named {entity['name']!r} already"
            )
        if any(_pattern(entity) == _pattern(one) for one in self._entities):
            raise ManagementError(BAD_REQUEST, f"{_pattern(entity)} is configured already")
        self._identify(entity)
        self._entities.append(entity)
        self._apply()
        return Response(CREATED, self.values(entity))

    def delete(self, request: Request) -> Response:
        """Forget a prefix or pattern: its addresses are treated as others again."""
        entity = self.find(request.name, request.identity)
        self._entities.remove(entity)
        self._apply()
        return Response(NO_CONTENT, {})

    def _apply(self) -> None:
        view = self._view
        addresses = [_setup(entity) for entity in self._entities]
        treatment = SetAddresses(addresses, view.setup.default_distribution)
        view.command(lambda: view.core.set_addresses(treatment))


def _setup(entity: dict[str, Any]) -> AddressSetup:
    return AddressSetup(
        prefix=entity.get("prefix"),
        pattern=entity.get("pattern"),
        distribution=entity["distribution"],
        priority=entity.get("priority"),
        name=entity.get("name"),
    )


def _pattern(entity: dict[str, Any]) -> str:
    pattern = entity.get("pattern")
    return str(pattern) if pattern is not None else f"{entity.get('prefix')}.#"


def _phase(name: str, with_waypoint: int) -> Callable[[dict[str, Any]], Any]:
    def read(row: dict[str, Any]) -> Any:
        value = row.get(name)
        return value if value is not None else with_waypoint if row.get("waypoint") else 0

    return read


_ADDRESS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "type": lambda row: PREFIX + "router.config.address",
    "waypoint": lambda row: bool(row.get("waypoint")),
    "ingressPhase": _phase("ingressPhase", 0),
    "egressPhase": _phase("egressPhase", 1),
    "priority": lambda row: -1 if row.get("priority") is None else row["priority"],
    "fallback": lambda row: bool(row.get("enableFallback")),
}
