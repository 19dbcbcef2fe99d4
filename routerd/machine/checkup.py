"""A check of this machine: what will hurt a router on it, and the remedy of each.

The kernel's own documents describe the files: proc_sys_fs(5), proc_sys_vm(5), Documentation/admin-guide/pm/cpufreq.rst,
Documentation/ABI/testing/sysfs-devices-system-cpu, sysfs-devices-node and clocksource.
"""

import re
import resource
from collections import defaultdict
from collections.abc import Collection, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from routerd.config.entities.router import Router
from routerd.machine.allowance import MIB, cpu_limit, memory_limit, too_little
from routerd.machine.descriptors import LEAST
from routerd.machine.pinning import ranges
from shm.contract.numbers import counted, whole
from shm.memory.flight import segment_bytes
from shm.memory.space import SegmentError, check_space, free_mib

MANY_DESCRIPTORS: Final = 65_536  # what a worker can have connections (docs/operations.md, Limits)
BACKLOG: Final = 1_024  # connections that may wait to be accepted; fewer are lost when clients come back at once
REPLACEABLE: Final = 2  # workers, of which one serves while the other restarts: the default
STOLEN: Final = 0.02  # part of the time since the start that other virtual machines took
FAST_CLOCKS: Final = {"tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen"}
STRICT_OVERCOMMIT: Final = 2
CPUS: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")


class Verdict(StrEnum):
    """How a finding is to be taken: `ERROR` keeps the router from running."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at: what was found, and for other verdicts than `OK` the remedy."""

    name: str
    verdict: Verdict
    found: str
    remedy: str = ""


class Machine:
    """This machine as its kernel describes it in the file systems below ``root``."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def text(self, path: str) -> str:
        """Return the content of a file without white space around it; "" if this machine has no such file."""
        try:
            return (self._root / path).read_text("ascii", "replace").strip()
        except OSError:
            return ""

    def number(self, path: str) -> int | None:
        """Return the number that a file holds, or None."""
        return whole(self.text(path))

    def paths(self, pattern: str) -> list[str]:
        """Return the paths, relative to the root, that match a pattern."""
        return sorted(str(path.relative_to(self._root)) for path in self._root.glob(pattern))


def checkup(router: Router, machine: Machine, usable: Collection[int]) -> Iterator[Finding]:
    """Yield a finding for each thing on the machine that can hurt a router with this configuration.

    ``usable`` are the CPUs that this process may run on.
    """
    yield _cpus(router, usable)
    yield _governor(machine, usable)
    yield _siblings(router, machine, usable)
    yield _nodes(router, machine, usable)
    yield _stolen(machine)
    yield _clock(machine)
    yield _shared_memory(router)
    yield _allowance(router)
    yield _overcommit(machine)
    yield _swap(machine)
    yield _descriptors()
    yield _backlog(machine)


def _cpus(router: Router, usable: Collection[int]) -> Finding:
    limit = cpu_limit()
    have = min(len(usable), limit or len(usable))
    found = f"{have:g} usable, {counted(router.workers, 'worker')} and the core"
    if limit is not None and limit < len(usable):
        found += "; the control group limits their time"
    if have >= router.workers + 1:
        return Finding("CPUs", Verdict.OK, found)
    if router.workers == REPLACEABLE <= have:
        found += " take turns; so one worker serves while the other restarts"
        return Finding("CPUs", Verdict.OK, found)
    fewer = "" if router.workers == 1 else f"lower `workers` to {max(1, int(have) - 1)} (`auto`), or "
    return Finding("CPUs", Verdict.WARNING, found, f"{fewer}give the router more CPUs")


def _governor(machine: Machine, usable: Collection[int]) -> Finding:
    by: defaultdict[str, list[int]] = defaultdict(list)
    for cpu in usable:
        if governor := machine.text(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"):
            by[governor].append(cpu)
    if not by:
        return Finding("CPU governor", Verdict.OK, "none here: the frequency is the hypervisor's or firmware's affair")
    found = ", ".join(f"{governor} on CPUs {ranges(cpus)}" for governor, cpus in sorted(by.items()))
    if by.keys() == {"performance"}:
        return Finding("CPU governor", Verdict.OK, found)
    remedy = (
        "set `performance`: cpupower frequency-set -g performance; otherwise a CPU wakes slowly, and latency varies"
    )
    return Finding("CPU governor", Verdict.WARNING, found, remedy)


def _siblings(router: Router, machine: Machine, usable: Collection[int]) -> Finding:
    cores: defaultdict[str, set[int]] = defaultdict(set)
    for cpu in usable:
        if threads := machine.text(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"):
            cores[threads].add(cpu)
    if all(len(threads) < 2 for threads in cores.values()):
        return Finding("SMT", Verdict.OK, "each usable CPU is a core of its own")
    pinned = _pinned(router)
    shared = sorted(threads for threads, cpus in cores.items() if len(pinned & cpus) > 1)
    if shared:
        remedy = "give coreCpu and workerCpus one thread of each core; lscpu -e shows which belong together"
        return Finding("SMT", Verdict.WARNING, f"pinned processes share the cores of CPUs {'; '.join(shared)}", remedy)
    if not pinned and len(cores) < router.workers + 1:
        remedy = (
            f"lower `workers` to {max(1, len(cores) - 1)}: the second thread of a core adds a third of a CPU at best"
        )
        return Finding("SMT", Verdict.WARNING, f"{len(usable)} usable CPUs are {len(cores)} cores", remedy)
    return Finding("SMT", Verdict.OK, f"{len(usable)} usable CPUs are {len(cores)} cores")


def _pinned(router: Router) -> set[int]:
    return {*router.worker_cpus, *([] if router.core_cpu is None else [router.core_cpu])}


def _nodes(router: Router, machine: Machine, usable: Collection[int]) -> Finding:
    here = {}
    for path in machine.paths("sys/devices/system/node/node*/cpulist"):
        if cpus := cpu_list(machine.text(path)) & {*usable}:
            here[path.split("/")[-2]] = cpus
    if len(here) < 2:
        return Finding("NUMA", Verdict.OK, "all usable CPUs are of one node")
    found = "; ".join(f"{node}: CPUs {ranges(cpus)}" for node, cpus in here.items())
    if router.core_cpu is not None and router.worker_cpus and any(_pinned(router) <= cpus for cpus in here.values()):
        return Finding("NUMA", Verdict.OK, f"{found}; the router is pinned to one")
    remedy = "set coreCpu and workerCpus to CPUs of one node; messages between nodes cost about twice as much"
    return Finding("NUMA", Verdict.WARNING, found, remedy)


def cpu_list(text: str) -> set[int]:
    """Return the CPUs of a list such as ``0-3,8`` (cpuset(7), List format); what is no such list names none."""
    cpus: set[int] = set()
    for part in text.split(","):
        if (found := CPUS.fullmatch(part)) is not None:
            cpus |= set(range(int(found[1]), int(found[2] or found[1]) + 1))
    return cpus


def _stolen(machine: Machine) -> Finding:
    """Compare what other virtual machines took with all time since the start (proc_stat(5), steal)."""
    line = machine.text("proc/stat").partition("\n")[0]
    fields = [whole(field) or 0 for field in line.split()[1:9]]
    part = fields[7] / max(1, sum(fields)) if len(fields) > 7 else 0.0
    found = f"other virtual machines took {part:.1%} of this machine's time since its start"
    if part < STOLEN:
        return Finding("stolen time", Verdict.OK, found)
    return Finding("stolen time", Verdict.WARNING, found, "give the virtual machine CPUs of its own on its host")


def _clock(machine: Machine) -> Finding:
    clock = machine.text("sys/devices/system/clocksource/clocksource0/current_clocksource")
    if not clock or clock in FAST_CLOCKS:
        return Finding("clock source", Verdict.OK, clock or "not known")
    remedy = (
        "find out why the kernel does not trust the TSC (dmesg | grep -i clocksource); each look at this clock is a "
        "system call"
    )
    return Finding("clock source", Verdict.WARNING, clock, remedy)


def _shared_memory(router: Router) -> Finding:
    try:
        check_space(router.workers, router.arena_size, ring=segment_bytes(router.flight_records))
    except SegmentError as error:
        found, _, remedy = str(error).partition("; ")
        return Finding("shared memory", Verdict.ERROR, found, remedy)
    free = free_mib()
    room = "there is no limit" if free is None else f"{free} MiB are free"
    return Finding("shared memory", Verdict.OK, f"{room}, {router.workers} arenas need {router.arena_size} each")


def _allowance(router: Router) -> Finding:
    limit = memory_limit()
    if warning := too_little(router.workers, router.arena_size, limit, segment_bytes(router.flight_records)):
        found, _, remedy = warning.rpartition("; ")
        return Finding("control group", Verdict.WARNING, found, remedy)
    return Finding("control group", Verdict.OK, f"{limit // MIB} MiB" if limit else "no limit of memory")


def _overcommit(machine: Machine) -> Finding:
    if machine.number("proc/sys/vm/overcommit_memory") != STRICT_OVERCOMMIT:
        return Finding("overcommit", Verdict.OK, "the kernel promises memory beyond what it has")
    remedy = "sysctl vm.overcommit_memory=0; processes map all arenas, and each mapping counts here as if it were used"
    return Finding("overcommit", Verdict.WARNING, "vm.overcommit_memory is 2", remedy)


def _swap(machine: Machine) -> Finding:
    areas = [line.split()[0] for line in machine.text("proc/swaps").splitlines()[1:] if line.strip()]
    if not areas:
        return Finding("swap", Verdict.OK, "off")
    remedy = (
        "keep the router in memory: MemorySwapMax=0 in its unit, or swapoff -a; a page read back takes milliseconds"
    )
    return Finding("swap", Verdict.WARNING, f"on: {', '.join(areas)}", remedy)


def _descriptors() -> Finding:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 0:
        return Finding("descriptors", Verdict.OK, "no limit")
    found = f"{hard} files may be open in a process, one for each connection"
    remedy = "raise the hard limit: LimitNOFILE=524288 in the unit, ulimit -Hn, or /etc/security/limits.conf"
    if hard < LEAST:
        return Finding("descriptors", Verdict.ERROR, f"{found}; the router itself needs {LEAST}", remedy)
    if hard < MANY_DESCRIPTORS:
        return Finding("descriptors", Verdict.WARNING, found, remedy)
    return Finding("descriptors", Verdict.OK, found)


def _backlog(machine: Machine) -> Finding:
    most = machine.number("proc/sys/net/core/somaxconn")
    if most is None or most >= BACKLOG:
        return Finding("backlog", Verdict.OK, "not known" if most is None else f"{most} connections may wait")
    remedy = f"sysctl net.core.somaxconn={BACKLOG}; when all clients come back at once, more than that are turned away"
    return Finding("backlog", Verdict.WARNING, f"{most} connections may wait to be accepted", remedy)
