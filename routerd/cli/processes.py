"""What `routerd stat --workers` tells of each process, and which one holds up the others."""

from typing import Any

from shm.contract.roles import Role

Row = dict[str, Any]


def _percent(row: Row, free: str, total: str) -> int | None:
    if not row.get(total):
        return None
    return round(100 * (1 - float(row.get(free, 0)) / float(row[total])))


def arena(row: Row) -> int | None:
    """Return the use of the scarcer size of blocks in an arena, in percent."""
    used = [_percent(row, "smallBlocksFree", "smallBlocks"), _percent(row, "largeBlocksFree", "largeBlocks")]
    return max((part for part in used if part is not None), default=None)


def ring(row: Row) -> int | None:
    """Return the fill of the fuller of a worker's two rings, in percent."""
    if not row.get("ringSize"):
        return None
    waiting = max(int(row.get("actionsWaiting", 0)), int(row.get("workWaiting", 0)))
    return round(100 * waiting / int(row["ringSize"]))


BUSY = 90  # percent of a CPU, from which a process is a bottleneck
FULL = 90  # percent of an arena, from which it counts as full
FILLING = 50  # percent of a ring, from which its consumer is behind
STALL_NS = 100_000_000  # the length of a turn that counts as a stall


def remark(row: Row) -> str | None:
    """Return what an operator should look into, most urgent first; None if nothing."""
    if not row.get("pid"):
        return "down"
    if row.get("cpuPercent", 0) >= BUSY or _behind(row) >= FILLING:
        return "bottleneck"
    if (arena(row) or 0) >= FULL:
        return "arena full"
    if row.get("awake"):
        return "needs CPU"
    waits_for_disk = row.get("name") == Role.RECORDER  # nobody waits for it
    if row.get("longestLoopNanoseconds", 0) >= STALL_NS and not waits_for_disk:
        return "stalling" if row.get("stalling") else "has stalled"
    return None


def _behind(row: Row) -> float:
    """Return how full the ring that this process reads is, in percent."""
    if row.get("ringSize"):
        return 100 * float(row.get("workWaiting", 0)) / float(row["ringSize"])
    return float(row.get("queued", 0))


def part(value: int) -> str:
    return f"{value}%"


def pinned(rows: list[Row]) -> str:
    """Return the line that says which settings pinned the processes to CPUs."""
    by = {row.get("pinnedBy") for row in rows}
    settings = [
        f"{whose} by {attribute}"
        for whose, attribute in (("core", "coreCpu"), ("workers", "workerCpus"))
        if attribute in by
    ]
    outside = "; the router's CPUs are limited from outside (taskset, CPUAffinity=, cpuset)"
    return f"pinned: {', '.join(settings) or 'nobody'}{outside if 'outside' in by else ''}"


def cpus(value: list[int]) -> str:
    if len(value) > 1 and value == list(range(value[0], value[-1] + 1)):
        return f"{value[0]}-{value[-1]}"
    return ",".join(map(str, value))


def stall(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.1f}ms"
