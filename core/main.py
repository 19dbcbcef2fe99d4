"""The core process attaches to shared memory, forwards messages and obeys the supervisor."""

import logging
import os
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from core.addresses.addresses import Identity
from core.interior.network_adapter import NetworkAdapter
from core.management.service import Service
from core.process import interpreter
from core.process.display import Display
from core.process.memory import Memory
from core.process.router import Core
from core.process.stall import Stalls
from shm.contract.channel import Channel
from shm.contract.control import (
    ChangeManagement,
    ChangeReply,
    Exit,
    Ready,
    SetManagement,
    Setup,
    ToChild,
    WorkerAdded,
    WorkerGone,
)
from shm.contract.failures import failures
from shm.contract.numbers import counted
from shm.memory import segment, snapshot_store

if TYPE_CHECKING:
    from core.interior.network import Network

LOGGER = logging.getLogger("ROUTER_CORE")

IDLE_NS: Final = 1_000_000_000  # an idle core beats its heart this often
CONTROLS: Final = 64  # control records handled before the core polls the supervisor's socket again


def run(setup: Setup, channel: Channel) -> None:
    """Serve until the supervisor says Exit.

    The mappings stay until the process ends, because an exception on its way out still refers to them.
    """
    segments = segment.attach(setup.segments)
    seed, names, wake = secrets.token_bytes(32), segments.names, segments.semaphore.release
    core = Core(setup, segments, seed, names.semaphore, wake, _snapshot_store(setup.segments))
    display = Display(core, segments.board())
    segments.core_stats().own(os.getpid(), setup.generation)
    failures.count_in(segments.core_stats())
    LOGGER.info("Router %s core started for %s", setup.router_id, counted(setup.workers, "worker"))
    service = None if setup.management is None else Service(core, channel.send)
    if service is not None:
        core.errands.append(service.step)
    if (network_adapter := core.find(NetworkAdapter)) is not None:
        network_adapter.start(lambda port: _network(setup, port))
    interpreter.prepare()
    channel.send(Ready(os.getpid()))
    serve(core, display, channel, time.monotonic_ns, setup.busy_poll_us * 1000, service)
    core.close()
    LOGGER.info("Router %s core stopped", setup.router_id)


def _snapshot_store(segments: str) -> Callable[[str], str]:
    """Return the function that names the file where a route table outlives the core."""
    return lambda name: str(snapshot_store.place(segments, name))


def _network(setup: Setup, network_adapter: NetworkAdapter) -> "Network":
    """Build the router protocol with the instance number of this run of the router."""
    from core.interior import duplicate_id, network  # noqa: PLC0415  a router that stands alone does without

    instance = duplicate_id.instance(time.time(), setup.generation, secrets.randbits)
    return network.Network(Identity(setup.router_id, setup.area), instance, setup.network, network_adapter)


def serve(
    core: Core, display: Display, channel: Channel, clock: Callable[[], int], busy: int, service: Service | None = None
) -> None:
    """Forward, keep the board and statistics up to date and obey the supervisor, until it says Exit."""
    pause = 0
    stalls, memory = Stalls(core.forwarder), Memory(core.forwarder, core.addresses)
    while True:
        for _ in range(CONTROLS):
            if not core.run(0 if core.restless else min(pause, IDLE_NS), busy) or core.restless:
                break
        # Messages pass between any two of these.
        for errand in core.errands:
            errand()
            core.run(0)
        now = clock()
        core.tick(now)
        core.run(0)
        while not (pause := display.step(now)):
            core.run(0)
        core.run(0)
        pause = min(pause, stalls.step(now), IDLE_NS)
        core.run(0)
        pause = min(pause, memory.step(now))
        core.run(0)
        if (wait := core.pause(now)) is not None:
            pause = min(pause, wait)
        # A process that is told of a new configuration may rely on it, so changes apply one after the other.
        while not core.addresses.unsettled and (message := channel.receive()) is not None:
            if isinstance(message, Exit):
                return
            _obey(message, core, channel, clock, service)


def _obey(message: ToChild, core: Core, channel: Channel, clock: Callable[[], int], service: Service | None) -> None:
    match message:
        case SetManagement() if service is not None:
            service.set_management(message.management)
        case ChangeManagement(deltas) if service is not None:
            service.change_management(deltas)
        case ChangeReply() if service is not None:
            service.changed(message)
        case WorkerGone() | WorkerAdded():
            channel.send(core.worker_changed(message, clock()))
        case _:
            core.configure(message)
