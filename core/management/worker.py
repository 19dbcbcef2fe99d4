"""The entity type `worker`, which qpid-dispatch lacks: processes as their statistics pages show them."""

import os
from pathlib import Path
from typing import Any

from core.management.entity_type import Column, Table, type_column
from core.management.processes import figures
from core.management.view import View
from shm import native
from shm.contract.roles import Role, process_name
from shm.memory import placement
from shm.native import StatsPage
from shm.statistics import stats


def _row(name: str, attribute: str, kind: str, description: str) -> Column:
    return Column(attribute, kind, description, lambda r: r.get(name))


class Workers(Table):
    """One row for each worker, and one for core, supervisor and recorder."""

    NAME = "worker"
    DESCRIPTION = "A process of the router."
    COLUMNS = (
        _row("name", "name", "string", "core, supervisor, recorder or worker-<index>."),
        Column("identity", "string", "worker/ and the name.", lambda r: f"worker/{r['name']}"),
        type_column("worker"),
        _row("role", "role", "string", "core, supervisor, recorder or worker."),
        _row("pid", "pid", "integer", "Process id; 0: not running."),
        _row("restarts", "restarts", "integer", "How often it was started again."),
        _row("cpuSeconds", "cpuSeconds", "double", "CPU time used since its start."),
        _row("cpus", "cpus", "list", "CPUs it may run on."),
        _row("pinnedBy", "pinnedBy", "string", "Source of cpus: coreCpu, workerCpus, outside or nobody."),
        _row("node", "numaNode", "integer", "NUMA node of all these CPUs, where a worker's blocks are."),
        _row("memory", "memory", "integer", "Bytes of memory; what is shared is counted in part."),
        _row("connections", "connections", "integer", "Open connections."),
        _row("links", "links", "integer", "Attached links."),
        _row("unsettled", "unsettled", "integer", "Deliveries not settled."),
        _row("deliveries_in", "deliveriesIn", "integer", "Deliveries received."),
        _row("deliveries_out", "deliveriesOut", "integer", "Deliveries sent."),
        _row("actions", "actionsWaiting", "integer", "Records for the core that it has not read."),
        _row("work", "workWaiting", "integer", "Records of the core that it has not read."),
        _row("ringSize", "ringSize", "integer", "Records that fit into each ring."),
        _row("small_free", "smallBlocksFree", "integer", "Free small blocks of its arena."),
        _row("small", "smallBlocks", "integer", "Small blocks of its arena."),
        _row("large_free", "largeBlocksFree", "integer", "Free large blocks of its arena."),
        _row("large", "largeBlocks", "integer", "Large blocks of its arena."),
        _row("loops", "loops", "integer", "Turns of its main loop."),
        _row("sleeps", "sleeps", "integer", "Times it slept for want of work."),
        _row("longest_turn_ns", "longestLoopNanoseconds", "integer", "Its longest turn: a stall."),
        _row("pauses", "pauses", "integer", "Times it stopped reading because blocks ran low."),
        _row("bad_records", "badRecords", "integer", "Invalid records."),
    )

    def __init__(self, view: View) -> None:
        super().__init__()
        self._view = view

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
        told = _page(role, page)
        pinned = _pinned_by(role, told["cpus"], segments.supervisor_stats().pid)
        return {"name": process_name(role, index), "role": role.value, **told, "pinnedBy": pinned, **more}


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
    seconds, memory, cpus = figures(pid) if pid else (0.0, 0, [])
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
