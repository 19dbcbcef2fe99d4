"""The placement of an arena's memory: on the NUMA node of its worker's CPUs, and in huge pages if configured.

The kernel has to know both before the first page of a mapping is touched. The arena also works where the
kernel refuses; the caller reports that.

Sources: mbind(2), madvise(2), and Linux's Documentation/admin-guide/mm/transhuge.rst and
numa_memory_policy.rst.
"""

import ctypes
import errno
import mmap
import os
import platform
from collections.abc import Collection
from pathlib import Path
from typing import Final

ONLINE: Final = Path("/sys/devices/system/cpu/online")
NODES: Final = Path("/sys/devices/system/node")
SHMEM_ENABLED: Final = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
MOUNTS: Final = Path("/proc/self/mounts")

_MPOL_PREFERRED: Final = 1
_NODES_BITS: Final = 1024
_MBIND: Final = {"x86_64": 237, "aarch64": 235, "riscv64": 235, "ppc64le": 259, "s390x": 268}


def online(file: Path = ONLINE) -> set[int]:
    """Return the machine's CPUs regardless of this process's affinity; empty if the kernel does not tell."""
    return _cpus(file)


def node_of(cpus: Collection[int], nodes: Path = NODES) -> int | None:
    """Return the NUMA node of all these CPUs; None if they have several or the kernel tells none."""
    found = {node for node in _nodes(nodes) if _cpus(nodes / f"node{node}" / "cpulist") & set(cpus)}
    return found.pop() if len(found) == 1 else None


def prefer_node(memory: mmap.mmap, address: int, node: int) -> str:
    """Prefer a node for the memory of a mapping; return the reason if that fails, or an empty text."""
    number = _MBIND.get(platform.machine())
    if number is None or node >= _NODES_BITS - 1:
        return f"mbind on {platform.machine()} for node {node} is not known here"
    mask = (ctypes.c_ulong * (_NODES_BITS // (8 * ctypes.sizeof(ctypes.c_ulong))))()
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask[node // bits] = 1 << node % bits
    libc = ctypes.CDLL(None, use_errno=True)
    length = ctypes.c_ulong(len(memory))
    done = libc.syscall(number, ctypes.c_void_p(address), length, _MPOL_PREFERRED, mask, ctypes.c_ulong(_NODES_BITS), 0)
    return "" if done == 0 else f"mbind: {os.strerror(ctypes.get_errno())}"


def ask_for_huge_pages(memory: mmap.mmap) -> str:
    """Ask for huge pages for a mapping; return the reason if that fails, or an empty text."""
    try:
        memory.madvise(mmap.MADV_HUGEPAGE)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return "the kernel was built without transparent huge pages"
        return f"madvise: {error.strerror}"
    return ""


def huge_pages_refused(directory: Path, shmem: Path = SHMEM_ENABLED, mounts: Path = MOUNTS) -> str:
    """Return why files below a mount point get no huge pages and what to do; empty if they get them."""
    try:
        chosen = shmem.read_text().partition("[")[2].partition("]")[0]
    except OSError:
        return "the kernel was built without transparent huge pages"
    if chosen == "force":
        return ""
    if chosen == "deny":
        return f"{shmem} says deny; write never, or advise, there"
    for line in reversed(os.fsdecode(mounts.read_bytes()).split("\n")):
        _, where, kind, options, *_ = [*line.split(" "), "", "", ""]
        if where == str(directory):
            if {"huge=always", "huge=within_size", "huge=advise"} & set(options.split(",")):
                return ""
            return f"{directory} ({kind}) is mounted without; mount -o remount,huge=advise {directory}"
    return f"{directory} is no mount point of its own; mount a tmpfs there with huge=advise"


def _nodes(nodes: Path) -> list[int]:
    try:
        names = os.listdir(nodes)
    except OSError:
        return []
    return [int(name[4:]) for name in names if name.startswith("node") and name[4:].isdecimal()]


def _cpus(file: Path) -> set[int]:
    found: set[int] = set()
    try:
        parts = file.read_text().strip().split(",")
    except OSError:
        return found
    for part in filter(None, parts):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
