"""A worker's main: it attaches to shared memory, serves, and follows the supervisor's packets."""

import logging
import os
import time
from typing import Protocol

from shm.contract.channel import Channel
from shm.contract.control import (
    CloseConnections,
    Closed,
    CoreBack,
    CoreGone,
    Drained,
    Exit,
    ListenerSetup,
    Quiesced,
    Ready,
    SetConnectors,
    SetListeners,
    SetPolicy,
    SetSourceRoutes,
    SetTables,
    Setup,
    StopAccepting,
    ToChild,
)
from shm.contract.failures import failures
from shm.contract.flow_log.setup import SetFlowLog
from shm.contract.payloads import Presented, Served
from shm.contract.tracing import SetTracing
from shm.memory import placement, segment
from workers.control.connectors import Connectors
from workers.control.guard import Guard
from workers.control.handler import Handler
from workers.control.link_requests import LinkRequests
from workers.control.listeners import Listeners
from workers.control.logins import Logins
from workers.control.message_log import MessageLog
from workers.control.neighbours import Framed
from workers.control.registry import Registry
from workers.control.relays import Relays
from workers.control.trace import Tracing
from workers.loop import engine
from workers.ockam.connections import Ockam
from workers.rmr.connections import Rmr
from workers.source_routes.senders import Senders

SERVER = logging.getLogger("SERVER")
ROUND_SECONDS = 1.0  # longest run of the pump before Python's turn; the control socket ends it early
POLL_NS = 1_000_000_000
WAITING_ROUND_SECONDS = 0.02  # its limit while Python waits for a state that causes no event
NO_CYRUS = ("ANONYMOUS", "EXTERNAL")  # mechanisms that need no configuration
FORCED = "amqp:connection:forced"


class Due(Protocol):
    """An object with timed work; ``wait`` returns the seconds until `step` is due, at most ``at_most``."""

    def step(self) -> None: ...
    def wait(self, at_most: float) -> float: ...


class Worker:
    """One worker; ``serve`` returns when the supervisor has sent Exit."""

    def __init__(self, setup: Setup, channel: Channel) -> None:
        engine.load()
        from workers.loop.pump import (  # noqa: PLC0415 - the engine must be loaded first
            Coupler,
            Dialler,
            OckamTransport,
            Pump,
            Relayer,
            RmrTransport,
            Routes,
            Security,
            Trace,
        )

        self._channel = channel
        self._segments = segment.attach(setup.segments)
        place_arena(self._segments, setup)
        self._pump = pump = Pump(
            self._segments,
            setup.index,
            setup.places,
            setup.doorbells[setup.index],
            channel.fileno(),
            busy_poll_us=setup.busy_poll_us,
        )
        pump.sign(f"{setup.area}/{setup.router_id}", edge=setup.mode == "edge")
        stats = self._segments.worker_stats(setup.index)
        registry = self._registry = Registry(setup, pump)
        security, dialler, relayer, trace = Security(pump), Dialler(pump), Relayer(pump), Trace(pump)
        guard = self._guard = Guard(setup.policy, security, stats, self._segments.core_stats())
        tracing = self._tracing = Tracing(trace, MessageLog(trace, registry.number))
        tracing.follow_log()
        configure_sasl(setup)
        senders = self._senders = Senders(Routes(pump), registry)
        shared = security, registry, tracing
        ockam = Ockam(OckamTransport(pump), *shared, senders)
        self._framed: list[Framed] = [Rmr(RmrTransport(pump), *shared, setup), ockam]
        self._link_requests = LinkRequests(dialler, Coupler(pump), registry.link_refused)
        self._connectors = Connectors(dialler, registry, guard, ockam)
        self._logins = Logins(guard, relayer, setup.sasl_config_dir, setup.sasl_config_name)
        identity = (setup.router_id, setup.version)
        self._relays = Relays(dialler, relayer, guard, self._logins, identity, registry.numbers)
        self._due: list[Due] = [
            self._connectors, *self._framed, self._relays, self._logins, self._link_requests
        ]  # fmt: skip
        pump.serve(Handler(registry, guard, tracing, self._link_requests, self._connectors, senders, self._framed))
        self._relays.change(setup.listeners)
        senders.configure(setup.source_routes)
        self._listeners = Listeners(pump, registry.listeners, self._protect)
        first = setup.generation == 1  # a router that cannot serve a listener from the start does not start
        for listener in setup.listeners:
            (self._listeners.add if first else self._listeners.join)(listener)
        registry.post(Served(self._listeners.served))
        self._connectors.change(setup.connectors)
        stats.own(os.getpid(), setup.generation)
        failures.count_in(stats)
        self._flow, self._spans = setup.flow, setup.tracing
        self._extract()
        self._pump.accept(setup.accepting)
        self._poll_due = 0
        self._draining = self._closing = self._resyncing = self._exit = False

    def serve(self) -> None:
        """Run the pump until told to exit."""
        self._channel.send(Ready(os.getpid()))
        while not self._exit:
            waiting = self._draining or self._closing or self._resyncing
            wait = WAITING_ROUND_SECONDS if waiting else ROUND_SECONDS
            for one in self._due:
                one.step()
            for one in self._due:
                wait = one.wait(wait)
            self._pump.run(wait)
            while (message := self._channel.receive()) is not None:
                self._obey(message)
            self._tracing.follow_log()
            self._report()
            self._poll(time.monotonic_ns())

    def _obey(self, message: ToChild) -> None:
        match message:
            case StopAccepting():
                self._pump.accept(False)
                self._pump.withhold_credit()
                self._connectors.stop()
                for one in self._framed:
                    one.stop()
                self._draining = True
            case CloseConnections(why):
                for index, generation in self._pump.connection_generations():
                    self._pump.connection_close(index, generation, (FORCED, why))
                self._closing = True
            case CoreGone(generation, died):
                for one in self._framed:
                    one.forget()
                self._link_requests.forget()
                self._pump.leave(died)
                self._resyncing = False
                self._channel.send(Quiesced(generation))
            case CoreBack():
                self._pump.come_back()
                self._resyncing = True
            case Exit():
                self._exit = True
            case _:
                self._reconfigure(message)

    def _reconfigure(self, message: ToChild) -> None:
        match message:
            case SetListeners(listeners):
                self._relays.change(listeners)
                self._listeners.change(listeners, self._channel.take_descriptors())
                self._registry.post(Served(self._listeners.served))
                for one in self._framed:
                    one.configure(message)
            case SetConnectors(connectors):
                self._connectors.change(connectors)
            case SetTables():
                for one in self._framed:
                    one.configure(message)
            case SetSourceRoutes(source_routes):
                self._senders.configure(source_routes)
            case SetFlowLog(flow):
                self._flow = flow
                self._extract()
            case SetTracing(tracing):
                self._spans = tracing
                self._extract()
            case SetPolicy(policy):
                self._guard.set_policy(policy)
            case _:
                SERVER.warning("ignored a packet of the supervisor that is not for a worker: %r", message)

    def _extract(self) -> None:
        """Tell the pump what flow log and tracing need of each message, if there is either."""
        recorded = self._flow.sampling > 0
        self._pump.extract(recorded or self._spans.sampling > 0, recorded and self._flow.transactions)

    def _protect(self, place: int, listener: ListenerSetup) -> None:
        """Set up a listener's place in the pump: TLS, SASL and protocol."""
        self._guard.protect(place, listener)
        self._relays.serve(place, listener)
        self._logins.serve(place, listener)
        for one in self._framed:
            one.listen(place, listener)

    def _poll(self, now: int) -> None:
        """Once a second, check which receivers have credit, report counts to the core, and retry listeners."""
        if now >= self._poll_due:
            self._poll_due = now + POLL_NS
            self._pump.poll(now)
            self._senders.report()
            if self._listeners.retry():
                self._registry.post(Served(self._listeners.served))

    def _report(self) -> None:
        if self._resyncing:
            self._resyncing = not self._pump.present()
            if not self._resyncing:
                self._connectors.tell()
                self._registry.post(Served(self._listeners.served))
                self._registry.post(Presented())
        if self._draining and self._pump.unsettled == 0:
            self._draining = False
            self._channel.send(Drained())
        if self._closing and self._pump.connections == 0:
            self._closing = False
            self._channel.send(Closed())


def place_arena(segments: segment.Segments, setup: Setup) -> None:
    """Set NUMA node and huge pages of this worker's arena, before its first block is touched."""
    arena, name = segments.arenas[setup.index], f"arena-{setup.index}"
    node = placement.node_of(os.sched_getaffinity(0))
    if node is None:
        SERVER.info("%s: this worker's CPUs are on several NUMA nodes or none; the kernel places its memory", name)
    elif why := placement.prefer_node(arena, segments.address(name), node):
        SERVER.warning("%s: its memory may be on another NUMA node than node %d: %s", name, node, why)
    if setup.huge_pages and (why := placement.ask_for_huge_pages(arena)):
        SERVER.warning("%s gets no huge pages: %s", name, why)


def configure_sasl(setup: Setup) -> None:
    """Tell Cyrus SASL where its configuration is, unless no listener or connector needs it."""
    needed = [listener.sasl_mechanisms not in NO_CYRUS for listener in setup.listeners]
    if not any(needed) and not setup.connectors:
        return
    from workers.loop.pump import sasl_configure  # noqa: PLC0415 - the engine must be loaded first

    sasl_configure(setup.sasl_config_dir, setup.sasl_config_name)


def run(setup: Setup, channel: Channel) -> None:
    """Serve as worker ``setup.index``; the caller reports exceptions."""
    Worker(setup, channel).serve()


def warm_up() -> None:
    """Load all code of a worker in a spare, before its role is known."""
    engine.load()
    import workers.loop.pump  # noqa: F401, PLC0415 - the engine must be loaded first
