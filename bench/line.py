"""The cost of each further router that a message passes."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bench.clients import ClientSpec, transfer
from bench.results import Run
from bench.targets import BenchError, Running


@dataclass(frozen=True, kw_only=True)
class Line:
    """A transfer, and one message in flight, from end to end of a line and at its first router alone."""

    count: int
    pings: int
    size: int = 100

    def run(self, running: Running, kind: str, scale: float) -> Run:
        """See `Measurement`. The run is that through the whole line, with the figures of one router as extras."""
        if running.process is None or not running.beyond:
            raise BenchError("there is no line of routers")
        self._transfer(running, running.far_port, kind, scale)  # to warm up
        alone, through = (self._transfer(running, port, kind, scale) for port in (running.port, running.far_port))
        near, far = (self._ping(running, port, kind, scale) for port in (running.port, running.far_port))
        return figures(alone, through, near, far, len(running.beyond))

    def _transfer(self, running: Running, port: int, kind: str, scale: float) -> Run:
        count = max(1, round(self.count * scale))
        receiver = ClientSpec(mode="recv", port=port, address=f"bench.{port}", count=count, size=self.size)
        sender = msgspec.structs.replace(receiver, mode="send", port=running.port)
        return transfer(running, [receiver], [sender], kind=kind)

    def _ping(self, running: Running, port: int, kind: str, scale: float) -> Run:
        ping = ClientSpec(
            mode="pingpong",
            port=running.port,
            far=port,
            address=f"bench.ping{port}",
            count=max(1, round(self.pings * scale)),
            size=self.size,
        )
        return transfer(running, [], [ping], kind=kind)


def figures(alone: Run, through: Run, near: Run, far: Run, further: int) -> Run:
    """Return CPU in µs per message and median latency in µs with one in flight, for one router and each further one."""
    if near.latency_us is None or far.latency_us is None:
        raise BenchError("no latency was measured; bodies need at least 8 bytes")
    extra = {
        "one_router_us": alone.total_cpu or 0.0,
        "hop_us": ((through.total_cpu or 0.0) - (alone.total_cpu or 0.0)) / further,
        "one_router_p50": near.latency_us.p50,
        "hop_p50": (far.latency_us.p50 - near.latency_us.p50) / further,
    }
    return msgspec.structs.replace(through, extra={**through.extra, **extra})
