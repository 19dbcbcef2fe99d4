"""What is measured: each scenario makes one `Run` against a running router."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from bench.clients import Client, ClientSpec, transfer
from bench.large import Large
from bench.line import Line
from bench.queries import Queries
from bench.results import Run
from bench.routes import Routed
from bench.targets import BenchError, Running, free_port

SETTLE_S = 1.0  # a router is not idle yet right after a start or an attach


class Measurement(Protocol):
    """One kind of measurement."""

    def run(self, running: Running, kind: str, scale: float) -> Run:
        """Measure once with a ``kind`` of client, with counts multiplied by ``scale``."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """``pairs`` senders, each to one receiver on an address of its own; ``count`` messages each."""

    count: int
    size: int = 100
    pairs: int = 1
    presettled: bool = False
    tls: bool = False
    credit: int = 1000

    def run(self, running: Running, kind: str, scale: float) -> Run:
        """See `Measurement`. Receivers are at the far end of a line."""
        direct = running.process is None
        near, far = (running.tls_port, running.tls_port) if self.tls else (running.port, running.far_port)
        if not near:
            raise BenchError("this router has no listener with TLS")
        receivers, senders = [], []
        for pair in range(self.pairs):
            receiver = ClientSpec(
                mode="recv",
                port=free_port() if direct else far,
                address=f"bench.{pair}",
                count=scaled(self.count, scale),
                size=self.size,
                presettled=self.presettled,
                credit=self.credit,
                listen=direct,
                tls=self.tls,
            )
            receivers.append(receiver)
            port = receiver.port if direct else near
            senders.append(msgspec.structs.replace(receiver, mode="send", port=port, listen=False))
        return transfer(running, receivers, senders, kind=kind)


@dataclass(frozen=True, kw_only=True)
class PingPong:
    """One message in flight: through the router and, with the same client, directly to a peer that returns it."""

    count: int
    size: int = 100

    def run(self, running: Running, kind: str, scale: float) -> Run:
        """See `Measurement`. Each run has a direct run next to it, on the same machine."""
        ping = ClientSpec(
            mode="pingpong", port=running.port, address="bench.ping", count=scaled(self.count, scale), size=self.size
        )
        direct = self._direct(ping, kind)
        if running.process is None:
            return direct
        routed = transfer(running, [], [ping], kind=kind)
        return with_extra(routed, ratio_to(routed, direct))

    def _direct(self, ping: ClientSpec, kind: str) -> Run:
        ping = msgspec.structs.replace(ping, port=free_port())
        echo = msgspec.structs.replace(ping, mode="echo", listen=True)
        return transfer(Running(ping.port), [echo], [ping], kind=kind)


@dataclass(frozen=True, kw_only=True)
class RmrTransfer:
    """Frames of RMR's own transport: a sender, the router with a route table of one entry, a receiver."""

    count: int
    size: int

    def run(self, running: Running, kind: str, scale: float) -> Run:
        """See `Measurement`. The client is always the hand-made one."""
        direct = running.process is None
        if not direct and not running.rmr_port:
            raise BenchError("this router has no route table")
        receiver = ClientSpec(
            mode="recv",
            port=running.port if direct else running.endpoint_port,
            address="rmr",
            count=scaled(self.count, scale),
            size=self.size,
            listen=direct,
        )
        port = receiver.port if direct else running.rmr_port
        return transfer(running, [receiver], [msgspec.structs.replace(receiver, mode="send", port=port)], kind="rmr")


@dataclass(frozen=True)
class Idle:
    """The memory of a router without connections."""

    def run(self, running: Running, kind: str, scale: float) -> Run:
        """See :class:`Measurement`."""
        time.sleep(SETTLE_S)
        return Run(memory=running.memory())


@dataclass(frozen=True, kw_only=True)
class Connections:
    """The memory of an idle connection with one receiving link on an address of its own."""

    count: int

    def run(self, running: Running, kind: str, scale: float) -> Run:
        """See `Measurement`. The client is always the hand-made one, which needs little memory itself."""
        links = scaled(self.count, scale)
        time.sleep(SETTLE_S)
        before = running.memory()
        idle = ClientSpec(mode="idle", port=running.port, address="bench.idle", links=links, credit=10)
        with Client(idle, "wire") as client:
            client.await_ready()
            time.sleep(SETTLE_S)
            after = running.memory()
            client.finish()
        grown = sum(after.values()) - sum(before.values())
        return Run(memory=after, extra={"connections": links, "kb_per_connection": grown / links / 1024})


@dataclass(frozen=True, kw_only=True)
class SlowReceiver:
    """A fast pair alone, and again with another address whose receiver takes 100 messages a second."""

    count: int
    pause_us: int = 10_000

    def run(self, running: Running, kind: str, scale: float) -> Run:
        """See :class:`Measurement`."""
        fast = Transfer(count=self.count)
        alone = fast.run(running, kind, scale)
        slow = ClientSpec(
            mode="recv", port=running.port, address="bench.slow", count=10**7, credit=10, pause_us=self.pause_us
        )
        with ExitStack() as stack:
            receiver = stack.enter_context(Client(slow, "proton"))
            receiver.await_ready()
            sender = stack.enter_context(Client(msgspec.structs.replace(slow, mode="send", pause_us=0), "proton"))
            sender.await_ready()
            sender.go()
            beside = fast.run(running, kind, scale)
        return with_extra(beside, slow_figures(alone, beside))


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A measurement, the upper limits of its figures, and what is measured besides routerd.

    Other routers are measured too, unless ``alone`` says that only routerd can do this.
    """

    name: str
    title: str
    measurement: Measurement
    goals: Mapping[str, float] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    alone: bool = False
    client: str = ""  # the kind for which the scenario is made; as a rule any will do
    routers: int = 1  # in a line
    rmr: bool = False  # with a route table
    tls: bool = False  # with a listener for it
    python_scale: float = 0.02  # scales counts for a router that is about fifty times slower

    @property
    def memory(self) -> bool:
        """Whether memory is what it measures, of which processes of other routers would share a part."""
        return isinstance(self.measurement, Idle | Connections)


def scaled(count: int, scale: float) -> int:
    """Return a scaled count, at least one."""
    return max(1, round(count * scale))


def with_extra(run: Run, extra: Mapping[str, float]) -> Run:
    """Return ``run`` with further figures."""
    return msgspec.structs.replace(run, extra={**run.extra, **extra})


def ratio_to(routed: Run, direct: Run) -> dict[str, float]:
    """Return how much longer a message takes through the router."""
    if routed.latency_us is None or direct.latency_us is None:
        raise BenchError("no latency was measured; bodies need at least 8 bytes")
    return {
        "direct_p50": direct.latency_us.p50,
        "direct_p99": direct.latency_us.p99,
        "p50_ratio": routed.latency_us.p50 / direct.latency_us.p50,
    }


def slow_figures(alone: Run, beside: Run) -> dict[str, float]:
    """Return the slow receiver's effect on the fast pair and on the router's memory."""
    grown = (beside.total_memory or 0) - (alone.total_memory or 0)
    kept = (beside.rate or 0.0) / alone.rate if alone.rate else 0.0
    return {"alone_rate": alone.rate or 0.0, "rate_kept": kept, "grown_mb": grown / 2**20}


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="1-1",
        title="1 to 1, 100 B, unsettled",
        measurement=Transfer(count=200_000),
        goals={"relative_cost": 1.4, "cpu:core": 0.4},
        also=("direct", "python"),
    ),
    Scenario(
        name="1-1-presettled",
        title="1 to 1, 100 B, presettled",
        measurement=Transfer(count=200_000, presettled=True),
        goals={"relative_cost": 1.4, "cpu:core": 0.4},
    ),
    Scenario(
        name="4-4",
        title="4 to 4 on four addresses, 100 B",
        measurement=Transfer(count=60_000, pairs=4),
        goals={"relative_cost": 1.5},
    ),
    Scenario(
        name="wire-1-1",
        title="1 to 1, 100 B, unsettled, hand-made client",
        measurement=Transfer(count=500_000),
        goals={"router_cpu": 0.9},
        also=("direct",),
        client="wire",
    ),
    Scenario(
        name="wire-4-4",
        title="4 to 4 on four addresses, 100 B, hand-made client",
        measurement=Transfer(count=150_000, pairs=4),
        goals={"router_cpu": 0.7},
        client="wire",
    ),
    Scenario(
        name="tls-1-1",
        title="1 to 1, 100 B, TLS",
        measurement=Transfer(count=200_000, tls=True),
        client="proton",
        tls=True,
    ),
    Scenario(
        name="1k", title="1 to 1, 1 KB", measurement=Transfer(count=150_000, size=1000), goals={"relative_cost": 1.5}
    ),
    Scenario(
        name="10k", title="1 to 1, 10 KB", measurement=Transfer(count=20_000, size=10_000), goals={"relative_cost": 1.5}
    ),
    Scenario(
        name="1m", title="1 to 1, 1 MB", measurement=Transfer(count=300, size=1_000_000), goals={"relative_cost": 1.5}
    ),
    Scenario(
        name="50m",
        title="50 MB from a proton sender",
        measurement=Large(size=50_000_000, smaller=10_000_000),
        goals={"sender_growth": 6.0},
        client="python",
    ),
    Scenario(name="ping", title="one message in flight", measurement=PingPong(count=5_000), goals={"p50_ratio": 2.0}),
    Scenario(name="idle", title="idle router", measurement=Idle(), goals={"memory_mb": 120.0}),
    Scenario(
        name="connections",
        title="idle connections, a link each",
        measurement=Connections(count=5_000),
        goals={"kb_per_connection": 64.0},
    ),
    Scenario(
        name="line-2",
        title="1 to 1 through two routers, 100 B",
        measurement=Line(count=100_000, pings=5_000),
        routers=2,
    ),
    Scenario(
        name="line-3",
        title="1 to 1 through three routers, 100 B",
        measurement=Line(count=100_000, pings=5_000),
        routers=3,
    ),
    Scenario(
        name="rmr-64",
        title="RMR to RMR by a route table, 64 B",
        measurement=RmrTransfer(count=300_000, size=64),
        goals={"router_cpu": 2.0},
        also=("direct",),
        alone=True,
        rmr=True,
    ),
    Scenario(
        name="rmr-1k",
        title="RMR to RMR by a route table, 1 KB",
        measurement=RmrTransfer(count=200_000, size=1024),
        goals={"router_cpu": 2.0},
        also=("direct",),
        alone=True,
        rmr=True,
    ),
    Scenario(name="slow", title="fast pair beside a slow receiver", measurement=SlowReceiver(count=200_000)),
    Scenario(
        name="queries",
        title="one message in flight beside QUERYs",
        measurement=Queries(links=10_000, count=20_000),
        goals={"query_delay_us": 1000.0},
        alone=True,
    ),
    Scenario(
        name="routes",
        title="1 to 1 through 0, 1, 3 and 8 workers of source routes, 100 B",
        measurement=Routed(count=100_000),
        goals={"further_us": 0.3},
        alone=True,
    ),
)
