"""The entity type `worker`, which qpid-dispatch lacks: processes as their statistics pages show them."""

import os
from pathlib import Path
from typing import Any

from core.management import processes
from core.management.entity_type import Column, Table, item, type_column
from shm import native
from shm.contract.roles import Role, process_name
from shm.memory import placement
from shm.native import StatsPage
from shm.statistics import stats


def _count(name: str, attribute: str, description: str) -> Column:
    return item(attribute, "integer", description, name)


class Workers(Table):
    """One row for each worker, and one for core, supervisor and recorder."""

    NAME = "worker"
    DESCRIPTION = "A process of the router."
    COLUMNS = (
        item("name", "string", "Name of the process: core, supervisor, recorder or worker-<index>."),
        Column("identity", "string", "worker/ and the name of the process.", lambda r: f"worker/{r['name']}"),
        type_column("worker"),
        item("role", "string", "Role of the process: core, supervisor, recorder or worker."),
        _count("pid", "pid", "Process id; 0: the process does not run."),
        _count("restarts", "restarts", "How often the supervisor has started the process again."),
        item("cpuSeconds", "double", "CPU seconds that the process has used."),
        item("cpus", "list", "CPUs that the process may run on."),
        item("pinnedBy", "string", "Source of `cpus`: coreCpu, workerCpus, outside or nobody."),
        _count("node", "numaNode", "NUMA node of all these CPUs, which also holds a worker's blocks."),
        _count("memory", "memory", "Bytes of memory: the process's own, and its share of shared memory."),
        _count("connections", "connections", "Open connections."),
        _count("links", "links", "Attached links."),
        _count("unsettled", "unsettled", "Unsettled deliveries."),
        _count("deliveries_in", "deliveriesIn", "Received deliveries."),
        _count("deliveries_out", "deliveriesOut", "Sent deliveries."),
        _count("actions", "actionsWaiting", "Records for the core that the core has not read."),
        _count("work", "workWaiting", "Records of the core that the worker has not read."),
        _count("ringSize", "ringSize", "Records that fit into each ring."),
        _count("small_free", "smallBlocksFree", "Free small blocks of the worker's arena."),
        _count("small", "smallBlocks", "All small blocks of the worker's arena."),
        _count("large_free", "largeBlocksFree", "Free large blocks of the worker's arena."),
        _count("large", "largeBlocks", "All large blocks of the worker's arena."),
        _count("loops", "loops", "Turns of the main loop."),
        _count("sleeps", "sleeps", "Times that the process slept because it had no work."),
        _count("longest_turn_ns", "longestLoopNanoseconds", "Duration of the longest turn, in nanoseconds."),
        _count("pauses", "pauses", "Times that the worker stopped reading because blocks ran low."),
        _count("bad_records", "badRecords", "Invalid records, which were dropped."),
    )

    def rows(self) -> list[tuple[Role, int]]:
        workers = range(self._view.segments.workers)
        recorder = [(Role.RECORDER, 0)] if self._view.segments.recorder_stats().pid else []
        return [(Role.SUPERVISOR, 0), (Role.CORE, 0), *recorder, *((Role.WORKER, i) for i in workers)]

    def row(self, entity: tuple[Role, int]) -> dict[str, Any]:
        """Return the present figures of a process."""
        role, index = entity
        segments = self._view.segments
        if role == Role.WORKER:
            page = segments.worker_stats(index)
            small, large = native.Arena(segments.arenas[index]).blocks
            more = {
                "actions": native.ring_records(segments.rings, native.action_ring_offset(index)),
                "work": native.ring_records(segments.rings, native.work_ring_offset(index)),
                "ringSize": native.RING_CAPACITY,
                "small": small,
                "large": large,
            }
        else:
            pages = {Role.CORE: segments.core_stats, Role.RECORDER: segments.recorder_stats}
            page = pages.get(role, segments.supervisor_stats)()
            more = {}
        figures = _page(role, page)
        pinned = _pinned_by(role, figures["cpus"], segments.supervisor_stats().pid)
        return {"name": process_name(role, index), "role": role.value, **figures, "pinnedBy": pinned, **more}


def _pinned_by(role: Role, cpus: list[int], supervisor: int, online: Path = placement.ONLINE) -> str:
    """Return what chose the CPUs of a process. The supervisor runs on every CPU that the router may use."""
    try:
        allowed = os.sched_getaffinity(supervisor)
    except OSError:
        return ""  # the router is stopping
    if role in _ATTRIBUTES and cpus and set(cpus) != allowed:
        return _ATTRIBUTES[role]
    return "outside" if placement.online(online) - allowed else "nobody"


_ATTRIBUTES = {Role.CORE: "coreCpu", Role.WORKER: "workerCpus"}
_WORKER_ONLY = frozenset({
    "connections", "links", "unsettled", "deliveries_in", "deliveries_out", "small_free", "large_free",
    "pauses",
})  # fmt: skip


def _page(role: Role, page: StatsPage) -> dict[str, Any]:
    pid = page.pid
    seconds, memory, cpus = processes.figures(pid) if pid else (0.0, 0, [])
    numbers = stats.read(page)
    if role != Role.WORKER:
        numbers = {name: value for name, value in numbers.items() if name not in _WORKER_ONLY}
    return {
        **numbers,
        "pid": pid,
        "restarts": max(0, page.generation - 1),
        "cpuSeconds": round(seconds, 3),
        "cpus": cpus,
        "node": placement.node_of(cpus),
        "memory": memory,
    }
