"""All entity types that a configuration file may hold, read from their Structs.

Source: the management schema of qpid-dispatch 1.19 and the extensions named in `routerd.config.entities.router`.
"""

from msgspec import Struct

from routerd.config.entities.attribute import Attribute, Entity, State, attributes_of
from routerd.config.entities.flow_log import FlowLog
from routerd.config.entities.policy import Policy, PolicyState, UserGroup, Vhost
from routerd.config.entities.route_tables import RouteTable, RouteTableState
from routerd.config.entities.router import Console, Log, Router, RouterState
from routerd.config.entities.routing import (
    Address,
    AutoLink,
    AutoLinkState,
    Binding,
    BindingState,
    Exchange,
    ExchangeState,
    LinkRoute,
    LinkRouteState,
)
from routerd.config.entities.source_routes import RouteWorker, RouteWorkerState, SourceRoutes
from routerd.config.entities.tracing import Tracing
from routerd.config.entities.transport import AuthServicePlugin, Connector, ConnectorState, Listener, SslProfile
from routerd.config.formats.source import camel_case

PREFIX = "org.apache.qpid.dispatch."
_CONFIG_PREFIX = "router.config."

COMMON = (
    Attribute(name="name", field="name", kind="string", description="A name, unique among entities of the type."),
    Attribute(name="identity", field="identity", kind="string", description="Given by the router.", create=False),
)


class EntityType(Struct, frozen=True, kw_only=True):
    """An entity type: its `name` without the common prefix, and its attributes, settable ones first."""

    name: str
    entity: type[Entity]
    attributes: dict[str, Attribute]
    singleton: bool = False
    operations: tuple[str, ...] = ()

    @property
    def short_name(self) -> str:
        """The name in files and messages: `address` for `router.config.address`."""
        return self.name.removeprefix(_CONFIG_PREFIX)

    @property
    def description(self) -> str:
        return (self.entity.__doc__ or "").strip()

    def attribute(self, name: str) -> Attribute | None:
        """Return the attribute of a present or former name."""
        if found := self.attributes.get(name):
            return found
        return next((a for a in self.attributes.values() if name in a.old_names), None)


def _type(
    entity: type[Entity], state: type[State] | None = None, *, singleton: bool = False, operations: tuple[str, ...] = ()
) -> EntityType:
    declared = (*COMMON, *attributes_of(entity), *(attributes_of(state, create=False) if state else ()))
    return EntityType(
        name=str(entity.__struct_config__.tag),
        entity=entity,
        attributes={attribute.name: attribute for attribute in declared},
        singleton=singleton,
        operations=operations,
    )


_CREATE_DELETE = ("CREATE", "DELETE")

ENTITY_TYPES: tuple[EntityType, ...] = (
    _type(Router, RouterState, singleton=True, operations=("UPDATE",)),
    _type(Log, operations=("UPDATE",)),
    _type(Listener, operations=_CREATE_DELETE),
    _type(Address, operations=_CREATE_DELETE),
    _type(Policy, PolicyState, singleton=True, operations=("UPDATE",)),
    _type(Vhost, operations=("CREATE", "UPDATE", "DELETE")),
    _type(SslProfile, operations=("CREATE", "UPDATE", "DELETE")),
    _type(AuthServicePlugin, operations=_CREATE_DELETE),
    _type(Connector, ConnectorState, operations=("CREATE", "UPDATE", "DELETE")),
    _type(LinkRoute, LinkRouteState, operations=_CREATE_DELETE),
    _type(AutoLink, AutoLinkState, operations=_CREATE_DELETE),
    _type(Exchange, ExchangeState, operations=_CREATE_DELETE),
    _type(Binding, BindingState, operations=_CREATE_DELETE),
    _type(RouteTable, RouteTableState, operations=("CREATE", "UPDATE", "DELETE", "PUSH", "EXPLAIN")),
    _type(RouteWorker, RouteWorkerState, operations=_CREATE_DELETE),
    _type(SourceRoutes, singleton=True),
    _type(FlowLog, singleton=True, operations=("CREATE", "UPDATE", "DELETE")),
    _type(Tracing, singleton=True),
    _type(Console, singleton=True),
)
USER_GROUP = _type(UserGroup)
VHOST = next(type_ for type_ in ENTITY_TYPES if type_.entity is Vhost)

TYPE_OF: dict[type[Entity], EntityType] = {t.entity: t for t in ENTITY_TYPES}
_BY_NAME = {t.name: t for t in ENTITY_TYPES} | {t.short_name: t for t in ENTITY_TYPES}


def entity_type(name: str) -> EntityType | None:
    """Return the entity type of a name: long or short, with or without prefix, camelCase or kebab-case."""
    return _BY_NAME.get(camel_case(name.removeprefix(PREFIX)))
