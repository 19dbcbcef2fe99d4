"""What load clients report to the runner, and what the runner writes: one definition for both ends."""

from __future__ import annotations

from array import array
from math import ceil

import msgspec


class Latency(msgspec.Struct, frozen=True):
    """Percentiles in µs."""

    p50: float
    p99: float
    p999: float

    @classmethod
    def of(cls, nanoseconds: bytes) -> Latency | None:
        """Return nearest-rank percentiles of native-endian 64-bit samples; None without samples."""
        ordered = sorted(array("Q", nanoseconds))
        if not ordered:
            return None

        def rank(share: float) -> float:
            return ordered[ceil(share * len(ordered)) - 1] / 1e3

        return cls(p50=rank(0.5), p99=rank(0.99), p999=rank(0.999))


class ClientResult(msgspec.Struct, frozen=True, kw_only=True):
    """One line of JSON from a load client.

    ``n`` counts messages sent or received, ``bad`` those not accepted, cut short or aborted; time and CPU are
    those of the transfer alone, without start-up.
    """

    mode: str
    n: int
    bad: int
    seconds: float
    cpu_us_per_message: float
    rate: float
    latency_us: Latency | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One repetition of one scenario against one target. None: this scenario does not measure it.

    CPU in µs per message, ``router_cpu`` by role; memory in bytes of PSS, ``memory`` by role. ``senders_s`` are the
    seconds until the slowest sender was done.
    """

    messages: int = 0
    bad: int = 0
    rate: float | None = None
    router_cpu: dict[str, float] = msgspec.field(default_factory=dict)
    clients_cpu: float | None = None
    senders_cpu: float | None = None  # a part of clients_cpu
    senders_s: float | None = None
    latency_us: Latency | None = None
    memory: dict[str, int] = msgspec.field(default_factory=dict)
    extra: dict[str, float] = msgspec.field(default_factory=dict)

    @property
    def total_cpu(self) -> float | None:
        """The CPU time of all router processes in µs per message."""
        return sum(self.router_cpu.values()) if self.router_cpu else None

    @property
    def relative_cost(self) -> float | None:
        """Router CPU per message ÷ CPU per message of sender and receiver together."""
        total = self.total_cpu
        return total / self.clients_cpu if total is not None and self.clients_cpu else None

    @property
    def total_memory(self) -> int | None:
        """The PSS of all router processes in bytes."""
        return sum(self.memory.values()) if self.memory else None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario's repetitions against one target, or the reason why there are none."""

    scenario: str
    target: str
    client: str
    runs: list[Run] = msgspec.field(default_factory=list)
    error: str | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The file that ``--json`` writes."""

    command: str
    cpus: int
    kernel: str
    python: str
    outcomes: list[Outcome]
