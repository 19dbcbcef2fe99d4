"""The cost of each route worker that a message passes inside the router."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from bench.clients import ClientSpec, transfer
from bench.results import Run
from bench.targets import BenchError, Running
from routerd.cli import client as management

CHAINS = (0, 1, 3, 8)


@dataclass(frozen=True, kw_only=True)
class Routed:
    """One sender, one receiver, and chains of route workers; the sender's target is the first of a chain."""

    count: int
    size: int = 100

    def run(self, running: Running, kind: str, scale: float) -> Run:
        """See `Measurement`. The run is that of the longest chain, with the figures of the others as extras."""
        if running.process is None:
            raise BenchError("the target is not a router")
        with management.Client(management.Place(f"amqp://127.0.0.1:{running.port}")) as client:
            there = list(client.query("router.config.routeWorker", ["address"]))
            for worker in workers():
                body = {"type": "router.config.routeWorker", **worker}
                if not any(have["address"] == worker["address"] for have in there):  # of a run before
                    client.call("CREATE", body, type="router.config.routeWorker")
        count = max(1, round(self.count * scale))
        runs = {}
        for length in (CHAINS[-1], *CHAINS):  # the first time to warm up
            receiver = ClientSpec(
                mode="recv", port=running.port, address=f"bench.end{length}", count=count, size=self.size
            )
            address = f"bench.chain{length}" if length else receiver.address
            sender = msgspec.structs.replace(receiver, mode="send", address=address)
            runs[length] = transfer(running, [receiver], [sender], kind=kind)
        return figures(runs)


def workers() -> list[dict[str, str]]:
    """Return a chain, whose first route worker is static and gives messages their route."""
    found = [{"kind": "forward", "address": f"bench.w{n}"} for n in range(1, max(CHAINS))]
    for length in CHAINS[1:]:
        route = [f"bench.w{n}" for n in range(1, length)] + [f"bench.end{length}"]
        found.append({"kind": "static", "address": f"bench.chain{length}", "route": "=>".join(route)})
    return found


def figures(runs: dict[int, Run]) -> Run:
    """Return router CPU in µs per message without route workers, with one, and for each further one."""
    cpu = {length: run.total_cpu or 0.0 for length, run in runs.items()}
    last = max(runs)
    extra = {"alone_us": cpu[0], "first_us": cpu[1] - cpu[0], "further_us": (cpu[last] - cpu[1]) / (last - 1)}
    return msgspec.structs.replace(runs[last], extra={**runs[last].extra, **extra})
