"""Assigns processes to CPUs."""

import os
from collections.abc import Collection, Sequence
from contextlib import suppress

import msgspec


class UnknownCpuError(ValueError):
    """The machine lacks a configured CPU, or this process may not use it."""


class Pinning(msgspec.Struct, frozen=True):
    """CPUs of the core and of each worker, by index; an empty list is any CPU."""

    core: list[int]
    workers: list[list[int]]


def plan(core_cpu: int | None, worker_cpus: Sequence[int], workers: int, usable: Collection[int]) -> Pinning:
    """Return the pinning that the configuration asks for; workers take `worker_cpus` in turn.

    Without configured CPUs the kernel's scheduler decides, which knows all that runs on the machine. Raises
    `UnknownCpuError` for a CPU that is not in `usable`.
    """
    core = [] if core_cpu is None else [core_cpu]
    for name, wanted in (("coreCpu", core), ("workerCpus", worker_cpus)):
        for cpu in wanted:
            if cpu not in usable:
                raise UnknownCpuError(f"{name}: no CPU {cpu} here; give some of {ranges(usable)}")
    if not worker_cpus:
        return Pinning(core, [[] for _ in range(workers)])
    return Pinning(core, [[worker_cpus[i % len(worker_cpus)]] for i in range(workers)])


def repin(pid: int, cpus: Collection[int]) -> None:
    """Move a running process, with all its threads, to these CPUs; an empty collection: to any usable one."""
    with suppress(OSError):  # it is gone, or the kernel refuses: its successor is pinned anyway
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), cpus or os.sched_getaffinity(0))


def ranges(cpus: Collection[int]) -> str:
    """Return CPU numbers as ranges: `0-3,6`."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)
