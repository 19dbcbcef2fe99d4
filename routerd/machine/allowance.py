"""The limits that the control group sets for this process: memory and processor time (cgroup version 2).

A container sees all processors and all memory of its machine; only the control group says what it may use.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from shm.contract.numbers import counted

GROUPS: Final = Path("/sys/fs/cgroup")
MEMBERSHIP: Final = Path("/proc/self/cgroup")
MIB: Final = 1024 * 1024
PROCESS_MIB: Final = 40  # memory of a process without its arena
OTHERS: Final = 4  # processes besides the workers: supervisor, core, two spares


def memory_limit(groups: Path = GROUPS, membership: Path = MEMBERSHIP) -> int | None:
    """Return the octets that the group, or a parent group, may use; None: no limit is known."""
    limits = [int(text) for text in _settings("memory.max", groups, membership) if text.isdecimal()]
    return min(limits, default=None)


def cpu_limit(groups: Path = GROUPS, membership: Path = MEMBERSHIP) -> float | None:
    """Return the processors, such as 1.5, whose time the group may use; None: no limit is known."""
    shares = []
    for text in _settings("cpu.max", groups, membership):
        quota, _, period = text.partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(period):
            shares.append(int(quota) / int(period))
    return min(shares, default=None)


def too_little(workers: int, arena_mib: int, limit: int | None, ring: int = 0) -> str:
    """Return a warning if so many workers may exceed a limit of memory in octets; empty if they fit.

    ``ring`` is the size of the flight recorder's ring in octets.
    """
    processes = workers + OTHERS
    need = workers * arena_mib + processes * PROCESS_MIB + ring // MIB
    if limit is None or need <= limit // MIB:
        return ""
    recorder = f", a flight recorder of {ring // MIB} MiB" if ring else ""
    return (
        f"{counted(workers, 'worker')}, arenas of {arena_mib} MiB{recorder} and {processes} processes "
        f"of about {PROCESS_MIB} MiB may take {need} MiB, but the control group allows {limit // MIB} MiB: "
        "the kernel will kill processes under load; lower `workers`, `arenaSize` or `flightRecords`, or raise the "
        "limit (MemoryMax=, --memory of a container)"
    )


def _settings(name: str, groups: Path, membership: Path) -> Iterator[str]:
    """Yield a setting of the group and of its parents, where it is set."""
    lines: list[str] = []
    with suppress(OSError):
        lines = os.fsdecode(membership.read_bytes()).splitlines()  # a group's name is any octets
    for line in lines:
        if line.startswith("0::"):
            place = groups / line[len("0::") :].lstrip("/")
            for group in (place, *place.parents):
                if group == groups or groups in group.parents:
                    with suppress(OSError):
                        yield (group / name).read_text().strip()
