"""CPU time and memory of the processes of a router, read from the kernel."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import psutil

_CPUCLOCK_SCHED = 2  # the clock of clock_getcpuclockid(3): user and system time of all threads, in ns


class ProcessGoneError(Exception):
    """A measured process has ended."""


def cpu_seconds(pid: int) -> float:
    """Return user and system time of a process in s; it is finer than the 10 ms ticks of ``/proc/PID/stat``."""
    try:
        return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError as error:
        raise ProcessGoneError(f"process {pid} ended while it was measured") from error


def pss_bytes(pid: int) -> int:
    """Return the proportional set size in bytes: a shared page counts in equal parts for each process."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError) as error:
        raise ProcessGoneError(f"process {pid} ended while it was measured") from error
    return parse_pss(rollup)


def parse_pss(rollup: str) -> int:
    """Return the ``Pss:`` line of a ``smaps_rollup`` file in bytes."""
    for line in rollup.splitlines():
        name, _, rest = line.partition(":")
        if name == "Pss":
            return int(rest.split()[0]) * 1024
    raise ValueError("no Pss line in smaps_rollup")


def role_of(command_line: list[str]) -> str:
    """Return the role of a process in its router, from its command line."""
    words = command_line[:]
    if "-m" in words:  # python [options] -m MODULE arguments
        words = words[words.index("-m") + 1 :]
    elif len(words) > 1 and Path(words[0]).name.startswith("python"):
        words = words[1:]
    if not words:
        return "?"
    if words[0] == "routerd.process":
        return " ".join(words[1:3] if words[1] == "worker" else words[1:2])
    if words[0] == "routerd" or Path(words[0]).name == "routerd":
        return "supervisor"
    return Path(words[0]).name


def processes(root: int) -> dict[str, int]:
    """Return the pids of ``root`` and all processes below it by role; a second one of a role gets a number."""
    top = psutil.Process(root)
    found = {role_of(top.cmdline()): root}
    for process in top.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended, and its parent has not noticed yet
            found[unique(role_of(process.cmdline()), found)] = process.pid
    return found


def unique(name: str, taken: dict[str, int]) -> str:
    """Return ``name``, or ``name 2``, ``name 3``, … if it is taken."""
    candidate, n = name, 1
    while candidate in taken:
        n += 1
        candidate = f"{name} {n}"
    return candidate
