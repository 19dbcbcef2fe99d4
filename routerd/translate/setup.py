"""Translates the configuration into the set-up of each child."""

import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from routerd.config import Config, Log, Router
from routerd.config.entities.flow_log import FlowLog
from routerd.config.entities.policy import Vhost
from routerd.config.entities.routing import Address, LinkRoute
from routerd.config.entities.tracing import Tracing
from routerd.config.entities.transport import AuthServicePlugin, Connector, SslProfile, failover_places
from routerd.config.formats.source import words
from routerd.machine.confidential import resolved
from routerd.machine.listeners import Listening
from routerd.translate.connectors import Connecting, assign, common_terms, connector_setup
from routerd.translate.delta import changes, deltas
from routerd.translate.identities import Identities
from routerd.translate.management import management
from routerd.translate.routing import phases_of, routing
from routerd.translate.security import policy_setup, service_setup, tls_setup
from routerd.translate.source_routes import source_routes
from routerd.translate.tables import advertised, tables
from shm.contract import control
from shm.contract.control import AddressSetup, LinkRouteSetup, ListenerSetup, LogSetup, Setup
from shm.contract.flow_log.setup import FlowLogSetup, SetFlowLog
from shm.contract.management import Management
from shm.contract.roles import Role
from shm.contract.routing import NetworkSetup, Routing
from shm.contract.security import PolicySetup
from shm.contract.source_routes import SourceRoutesSetup
from shm.contract.structs import same
from shm.contract.tables import TableSetup
from shm.contract.tracing import SetTracing, TracingSetup
from shm.memory.space import MIB

ROUTING = (Role.CORE, Role.WORKER)  # roles that handle messages
# The parts of a set-up that not every role gets, and the roles that get them.
ROLES: Final = {
    "policy": ROUTING,
    "tables": ROUTING,
    "source_routes": ROUTING,
    "flow": (*ROUTING, Role.RECORDER),
    "tracing": (*ROUTING, Role.EXPORTER),
    "routing": (Role.CORE,),
    "link_routes": (Role.CORE,),
}
# The messages that replace parts of a set-up while the router runs.
REPLACING: Final = {
    "logs": control.SetLogs, "listeners": control.SetListeners, "connectors": control.SetConnectors,
    "policy": control.SetPolicy, "tables": control.SetTables, "source_routes": control.SetSourceRoutes,
    "flow": SetFlowLog, "routing": control.SetRouting, "link_routes": control.SetLinkRoutes,
    "tracing": SetTracing,
}  # fmt: skip
HOUR: Final = 3600

STARTED: Final = time.monotonic_ns()
SECRET: Final = secrets.token_bytes(16)  # one for each run of the router


class Blueprint(msgspec.Struct, frozen=True):
    """The source of every child's set-up."""

    router: Router
    version: str
    listening: Sequence[Listening]
    doorbells: Sequence[int]  # an eventfd(2) for each place
    connecting: Sequence[Connecting] = ()
    profiles: Sequence[SslProfile] = ()
    plugins: Sequence[AuthServicePlugin] = ()
    logs: list[LogSetup] = []
    policy: PolicySetup = PolicySetup()
    addresses: list[AddressSetup] = []
    link_routes: list[LinkRouteSetup] = []
    routing: Routing = Routing()
    source_routes: SourceRoutesSetup = SourceRoutesSetup()
    flow: FlowLogSetup = FlowLogSetup()
    tracing: TracingSetup = TracingSetup()
    tables: list[TableSetup] = []
    management: Management | None = None

    @property
    def exports(self) -> bool:
        """Whether the router needs an exporter."""
        return bool(self.tracing.endpoint) or any(one.listener.http for one in self.listening)

    @property
    def records(self) -> bool:
        """Whether the router needs a recorder."""
        return self.flow.sampling > 0

    @property
    def places(self) -> int:
        """The largest number of workers."""
        return len(self.doorbells)

    def setup(self, role: Role, index: int, generation: int, cpus: list[int], segments: str, workers: int = 0) -> Setup:
        """Return a child's first message; a worker gets only its own doorbell."""
        core, worker = role == Role.CORE, role == Role.WORKER
        return same(
            self.router,
            Setup,
            role=role,
            index=index,
            generation=generation,
            segments=segments,
            router_id=self.router.id,
            version=self.version,
            workers=workers or self.router.workers,
            room=self.places,
            doorbells=[fd if core or (worker and i == index) else -1 for i, fd in enumerate(self.doorbells)],
            cpus=cpus,
            addresses=self.addresses if core else [],
            resumable_link_routes=self.router.allow_resumable_link_route,
            network=same(self.router, NetworkSetup),
            flight=control.FlightSetup(self.router.flight_addresses),
            busy_poll_us=self.router.busy_poll,
            management=self.management if core else None,
            started=STARTED,
            secret=SECRET if worker else b"",
            **self._parts(role, index),
        )

    def inherited(self, setup: Setup) -> list[int]:
        """Return the file descriptors that a child inherits with its set-up."""
        return _sockets(setup.listeners) + [fd for fd in setup.doorbells if fd >= 0]

    def news(self, role: Role, index: int, before: "Blueprint") -> list[tuple[msgspec.Struct, list[int]]]:
        """Return messages for a child set up by `before`, each with its descriptors."""
        parts, former = self._parts(role, index), before._parts(role, index)
        news: list[tuple[msgspec.Struct, list[int]]] = [
            (REPLACING[name](part), _sockets(part) if name == "listeners" else [])
            for name, part in parts.items()
            if part != former[name]
        ]
        if role != Role.CORE:
            return news
        # auto links and exchanges are resolved by the addresses, so these come first
        return [(one, []) for one in self._address_news(before)] + news + [(one, []) for one in self._entities(before)]

    def _address_news(self, before: "Blueprint") -> Iterator[msgspec.Struct]:
        if self.router.default_distribution != before.router.default_distribution:
            yield control.SetAddresses(self.addresses, self.router.default_distribution)
        elif self.addresses != before.addresses:
            yield control.ChangeAddresses(*changes(before.addresses, self.addresses))

    def _entities(self, before: "Blueprint") -> Iterator[msgspec.Struct]:
        if self.management is not None and before.management is not None:
            if applied := deltas(before.management, self.management):
                yield control.ChangeManagement(applied)
        elif self.management is not None:
            yield control.SetManagement(self.management)

    def _parts(self, role: Role, index: int) -> dict[str, Any]:
        """Return the parts of a child's set-up that a message replaces, by their names in it.

        Listeners and connectors need the others, so they come last.
        """
        connectors = [
            connector_setup(one, self.router.link_capacity, self.profiles)
            for one in self.connecting
            if role == Role.WORKER and one.worker == index
        ]
        own = {name: getattr(self, name) for name, roles in ROLES.items() if role in roles}
        return {"logs": self.logs, **own, "listeners": self._listeners(role), "connectors": connectors}

    def _listeners(self, role: Role) -> list[ListenerSetup]:
        """Return the listeners of a role.

        Workers have those for AMQP, the exporter those for HTTP; the exporter hands AMQP over WebSockets to
        workers.
        """
        if role not in (Role.WORKER, Role.EXPORTER):
            return []
        found: list[ListenerSetup] = []
        for one in self.listening:
            setup = _listener(one, self.router.link_capacity, self.profiles)
            service = service_setup(one.listener, self.plugins, self.profiles)
            setup = msgspec.structs.replace(setup, service=service)
            if one.handover is not None:
                found.append(_handing_over(setup, one.handover, role == Role.EXPORTER))
            elif one.listener.http is (role == Role.EXPORTER):
                found.append(setup)
        return found


def blueprint(
    config: Config,
    version: str,
    listening: Sequence[Listening],
    doorbells: Sequence[int],
    identities: Identities,
    connecting: Sequence[Connecting] = (),
) -> Blueprint:
    """Return the blueprint of a configuration; connectors in `connecting` keep their workers.

    Passwords are resolved here, before the first child starts: whichever that is, its environment lacks them.
    """
    connectors = [resolved(one, "sasl_password") for one in config.of(Connector)]
    return Blueprint(
        router=config.router,
        version=version,
        listening=tuple(listening),
        doorbells=doorbells,
        connecting=assign(connecting, connectors, config.router.workers),
        profiles=[resolved(one, "password") for one in config.of(SslProfile)],
        plugins=config.of(AuthServicePlugin),
        logs=log_setups(config.logs),
        policy=policy_setup(config.policy, config.of(Vhost)),
        addresses=[address_setup(one) for one in config.addresses],
        link_routes=[link_route_setup(one) for one in config.of(LinkRoute)],
        routing=routing(config, identities),
        source_routes=source_routes(config, identities),
        flow=next(map(_flow, config.of(FlowLog)), FlowLogSetup()),
        tracing=next((same(one, TracingSetup) for one in config.of(Tracing)), TracingSetup()),
        tables=tables(config),
        management=management(config, identities),
    )


def log_setups(logs: Sequence[Log]) -> list[LogSetup]:
    return [same(log, LogSetup) for log in logs]


def _sockets(listeners: Sequence[ListenerSetup]) -> list[int]:
    return [fd for one in listeners for fd in one.fds]


def _listener(listening: Listening, link_capacity: int | None, profiles: Sequence[SslProfile]) -> ListenerSetup:
    listener = listening.listener
    return same(
        listener,
        ListenerSetup,
        name=listener.name or "",
        fds=[sock.fileno() for sock in listening.sockets],
        number=listening.number,
        tls=tls_setup(listener, profiles),
        allowed_hosts=words(listener.allowed_hosts) + ([listener.host] if listener.host else []),
        allowed_origins=words(listener.allowed_origins),
        failover=failover_places(listener.failover_urls or ""),
        advertised=advertised(listener),
        websockets=False,  # `_handing_over` sets this
        url=next(iter(listening.urls), ""),
        **common_terms(listener, link_capacity),
    )


def _handing_over(setup: ListenerSetup, ends: tuple[socket.socket, socket.socket], exporter: bool) -> ListenerSetup:
    """Return a listener's set-up for AMQP over WebSockets at one end; the exporter does the TLS."""
    if exporter:
        return msgspec.structs.replace(setup, fds=[*setup.fds, ends[0].fileno()], websockets=True)
    return msgspec.structs.replace(setup, fds=[ends[1].fileno()], tls=None, require_encryption=False, websockets=True)


def link_route_setup(route: LinkRoute) -> LinkRouteSetup:
    return same(
        route,
        LinkRouteSetup,
        outgoing=route.direction == "out",
        container=route.container_id,
        add_prefix=route.add_external_prefix or "",
        remove_prefix=route.del_external_prefix or "",
    )


def address_setup(address: Address) -> AddressSetup:
    ingress, egress = phases_of(address)
    fallback = address.enable_fallback
    return same(address, AddressSetup, ingress_phase=ingress, egress_phase=egress, fallback=fallback)


def _flow(log: FlowLog) -> FlowLogSetup:
    return same(
        log,
        FlowLogSetup,
        roll_bytes=log.roll_size * MIB,
        roll_seconds=log.roll_age,
        keep_bytes=log.retention_size * MIB,
        keep_seconds=log.retention_age * HOUR,
        raw_seconds=log.raw_age * HOUR,
    )
