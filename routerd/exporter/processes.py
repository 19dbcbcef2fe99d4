"""What /status.json says about the processes of the router."""

import msgspec

from routerd.exporter.observer import Observer, State
from shm.native import RING_CAPACITY, arena_split


class Process(msgspec.Struct, rename="camel"):
    """One process; memory in bytes, times in seconds, fills from 0 to 1; None where nothing applies."""

    name: str
    pid: int
    up: bool
    restarts: int
    stalled: float
    cpu: float
    memory: int = 0
    shared_memory: int = 0
    longest_turn: float = 0.0
    connections: int | None = None
    links: int | None = None
    unsettled: int | None = None
    arena_fill: float | None = None
    ring_fill: float | None = None
    descriptor_fill: float | None = None


def processes(observer: Observer, states: list[State]) -> list[Process]:
    """Return the processes in the order of their states."""
    small, large = arena_split(observer.view.arena_bytes)
    fullest: dict[str, int] = {}
    for ring in observer.view.rings():
        fullest[ring.process] = max(fullest.get(ring.process, 0), ring.records)
    found = []
    for state in states:
        page = state.page
        process = Process(
            page.process,
            page.pid,
            state.works,
            max(0, page.generation - 1),
            round(state.stalled, 1),
            round(observer.cpu(page.process), 3),
            longest_turn=page.counters["longest_turn_ns"] * 1e-9,
        )
        figures = observer.figures(page.pid) if state.alive else None
        if figures is not None:
            process.memory, process.shared_memory = figures.resident, figures.shared
            if figures.descriptors is not None and figures.most_descriptors:
                process.descriptor_fill = round(figures.descriptors / figures.most_descriptors, 4)
        if page.process in fullest:
            process.connections = page.counters["connections"]
            process.links = page.counters["links"]
            process.unsettled = page.counters["unsettled"]
            free = min(page.counters["small_free"] / small, page.counters["large_free"] / large)
            process.arena_fill = round(max(0.0, 1 - free), 4) if state.alive else None
            process.ring_fill = round(fullest[page.process] / RING_CAPACITY, 4)
        found.append(process)
    return found
