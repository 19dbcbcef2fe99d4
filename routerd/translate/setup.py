"""Translates the configuration into the set-up of each child."""

import secrets
import socket
from collections.abc import Sequence
from typing import Final

import msgspec

from routerd.config.entities.policy import Policy, Vhost
from routerd.config.entities.router import Log, Router
from routerd.config.entities.routing import Address, LinkRoute
from routerd.config.entities.transport import AuthServicePlugin, Listener, SslProfile
from routerd.config.rules.ockam import ockam_setup
from routerd.config.rules.peers import failover_places
from routerd.machine.listeners import Listening
from routerd.translate.connectors import MAX_SESSIONS, MIN_FRAME_SIZE, Connecting, connector_setup
from routerd.translate.delta import changes, deltas
from routerd.translate.routing import phases_of
from routerd.translate.same import same
from routerd.translate.security import mechanisms, policy_setup, service_setup, tls_setup, words
from routerd.translate.tables import advertised
from shm.contract.control import (
    AddressSetup,
    ChangeAddresses,
    ChangeManagement,
    ConnectorSetup,
    LinkRouteSetup,
    ListenerSetup,
    LogSetup,
    SetAddresses,
    SetConnectors,
    SetLinkRoutes,
    SetListeners,
    SetLogs,
    SetManagement,
    SetPolicy,
    SetRouting,
    SetSourceRoutes,
    SetTables,
    Setup,
)
from shm.contract.flow_setup import FlowSetup, SetFlow
from shm.contract.management import Management
from shm.contract.roles import Role
from shm.contract.routing import NetworkSetup, Routing
from shm.contract.source_routes import SourceRoutesSetup
from shm.contract.tables import TableSetup
from workers.control.message_log import components

ROUTING = (Role.CORE, Role.WORKER)  # roles that handle messages
FLOW = (*ROUTING, Role.RECORDER)  # roles that the flow log concerns

SECRET: Final = secrets.token_bytes(16)  # one for each run of the router


class Blueprint(msgspec.Struct, frozen=True):
    """The source of every child's set-up."""

    router: Router
    router_id: str
    version: str
    listening: Sequence[Listening]
    addresses: Sequence[Address]
    logs: Sequence[Log]
    doorbells: Sequence[int]  # an eventfd(2) for each place
    profiles: Sequence[SslProfile] = ()
    plugins: Sequence[AuthServicePlugin] = ()
    policy: Policy = Policy()
    vhosts: Sequence[Vhost] = ()
    connecting: Sequence[Connecting] = ()
    management: Management | None = None
    routing: Routing = Routing()
    link_routes: Sequence[LinkRoute] = ()
    source_routes: SourceRoutesSetup = SourceRoutesSetup()
    flow: FlowSetup = FlowSetup()
    tables: Sequence[TableSetup] = ()

    @property
    def serves_http(self) -> bool:
        """Whether the router needs an exporter."""
        return any(one.listener.http for one in self.listening)

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
        return Setup(
            role=role,
            index=index,
            generation=generation,
            segments=segments,
            router_id=self.router_id,
            version=self.version,
            workers=workers or self.router.workers,
            room=self.places,
            doorbells=[fd if core or (worker and i == index) else -1 for i, fd in enumerate(self.doorbells)],
            cpus=cpus,
            mode=self.router.mode,
            listeners=self._listeners(role),
            connectors=self._connectors(role, index),
            addresses=self._addresses() if core else [],
            logs=log_setups(self.logs),
            link_routes=self._link_routes() if core else [],
            resumable_link_routes=self.router.allow_resumable_link_route,
            default_distribution=self.router.default_distribution,
            link_capacity=self.router.link_capacity,
            network=NetworkSetup(
                self.router.hello_interval_seconds,
                self.router.hello_max_age_seconds,
                self.router.ra_interval_seconds,
                self.router.ra_interval_flux_seconds,
                self.router.remote_ls_max_age_seconds,
                self.router.unreachable_holdoff_seconds,
            ),
            busy_poll_us=self.router.busy_poll,
            huge_pages=self.router.huge_pages,
            management=self.management if core else None,
            routing=self.routing if core else Routing(),
            source_routes=self.source_routes if role in ROUTING else SourceRoutesSetup(),
            flow=self.flow if role in FLOW else FlowSetup(),
            tables=list(self.tables) if role in ROUTING else [],
            secret=SECRET if worker else b"",
            policy=policy_setup(self.policy, self.vhosts),
            sasl_config_dir=self.router.sasl_config_dir or "",
            sasl_config_name=self.router.sasl_config_name,
        )

    def inherited(self, setup: Setup) -> list[int]:
        """Return the file descriptors that a child inherits with its set-up."""
        sockets = [fd for listener in setup.listeners for fd in listener.fds]
        return sockets + [fd for fd in setup.doorbells if fd >= 0]

    def news(self, role: Role, index: int, before: "Blueprint") -> list[tuple[msgspec.Struct, list[int]]]:
        """Return messages for a child set up by `before`, each with its descriptors."""
        news: list[tuple[msgspec.Struct, list[int]]] = []
        if self.logs != before.logs:
            news.append((SetLogs(log_setups(self.logs)), []))
        if (listeners := self._listeners(role)) != before._listeners(role):
            news.append((SetListeners(listeners), [fd for one in listeners for fd in one.fds]))
        if (connectors := self._connectors(role, index)) != before._connectors(role, index):
            news.append((SetConnectors(connectors), []))
        policy = policy_setup(self.policy, self.vhosts)
        if role in ROUTING and policy != policy_setup(before.policy, before.vhosts):
            news.append((SetPolicy(policy), []))
        if role in ROUTING and list(self.tables) != list(before.tables):
            news.append((SetTables(list(self.tables)), []))
        if role in ROUTING and self.source_routes != before.source_routes:
            news.append((SetSourceRoutes(self.source_routes), []))
        if role in FLOW and self.flow != before.flow:
            news.append((SetFlow(self.flow), []))
        return news + (self._core_news(before) if role == Role.CORE else [])

    def _core_news(self, before: "Blueprint") -> list[tuple[msgspec.Struct, list[int]]]:
        news: list[tuple[msgspec.Struct, list[int]]] = []
        if self.router.default_distribution != before.router.default_distribution:
            news.append((self._treatment(), []))
        elif self.addresses != before.addresses:
            gone, new = changes(before._addresses(), self._addresses())
            news.append((ChangeAddresses(gone, new), []))
        if self.routing != before.routing:
            news.append((SetRouting(self.routing), []))
        if self._link_routes() != before._link_routes():
            news.append((SetLinkRoutes(self._link_routes()), []))
        if self.management is not None and before.management is not None:
            if applied := deltas(before.management, self.management):
                news.append((ChangeManagement(applied), []))
        elif self.management is not None:
            news.append((SetManagement(self.management), []))
        return news

    def _treatment(self) -> SetAddresses:
        return SetAddresses(self._addresses(), self.router.default_distribution)

    def _addresses(self) -> list[AddressSetup]:
        return [_address(address) for address in self.addresses]

    def _link_routes(self) -> list[LinkRouteSetup]:
        return [link_route_setup(route) for route in self.link_routes]

    def _connectors(self, role: Role, index: int) -> list[ConnectorSetup]:
        """Return the connectors of a worker."""
        return [
            connector_setup(one, self.router.link_capacity, self.profiles)
            for one in self.connecting
            if role == Role.WORKER and one.worker == index
        ]

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


def log_setups(logs: Sequence[Log]) -> list[LogSetup]:
    return [same(log, LogSetup) for log in logs]


def _listener(listening: Listening, link_capacity: int, profiles: Sequence[SslProfile]) -> ListenerSetup:
    listener: Listener = listening.listener
    return same(
        listener,
        ListenerSetup,
        name=listener.name or "",
        fds=[sock.fileno() for sock in listening.sockets],
        number=listening.number,
        max_frame_size=max(listener.max_frame_size, MIN_FRAME_SIZE),
        max_sessions=min(listener.max_sessions or MAX_SESSIONS, MAX_SESSIONS),
        max_session_frames=listener.max_session_frames or 0,
        link_capacity=listener.link_capacity or link_capacity,
        sasl_mechanisms=mechanisms(listener),
        tls=tls_setup(listener, profiles),
        allowed_hosts=words(listener.allowed_hosts) + ([listener.host] if listener.host else []),
        allowed_origins=words(listener.allowed_origins),
        failover=failover_places(listener.failover_urls or ""),
        logged_parts=components(listener.message_logging_components),
        table=(listener.table or "") if listener.protocol == "rmr" else "",
        advertised=advertised(listener),
        ockam=ockam_setup(listener),
        websockets=False,  # `_handing_over` sets this
    )


def _handing_over(setup: ListenerSetup, ends: tuple[socket.socket, socket.socket], exporter: bool) -> ListenerSetup:
    """Return a listener's set-up for AMQP over WebSockets at one end; the exporter does the TLS."""
    if exporter:
        return msgspec.structs.replace(setup, fds=[*setup.fds, ends[0].fileno()], websockets=True)
    return msgspec.structs.replace(setup, fds=[ends[1].fileno()], tls=None, require_encryption=False, websockets=True)


def link_route_setup(route: LinkRoute) -> LinkRouteSetup:
    return LinkRouteSetup(
        outgoing=route.direction == "out",
        prefix=route.prefix,
        pattern=route.pattern,
        container=route.container_id,
        connection=route.connection,
        add_prefix=route.add_external_prefix or "",
        remove_prefix=route.del_external_prefix or "",
    )


def _address(address: Address) -> AddressSetup:
    ingress, egress = phases_of(address)
    fallback = address.enable_fallback
    return same(address, AddressSetup, ingress_phase=ingress, egress_phase=egress, fallback=fallback)
