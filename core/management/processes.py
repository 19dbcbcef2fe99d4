"""What the operating system reports of the router's processes."""

import psutil

from shm.memory.segment import Segments


def memory_usage(segments: Segments) -> int:
    """Return the bytes of memory of all processes. Shared memory counts once."""
    pages = [segments.supervisor_stats(), segments.core_stats(), segments.recorder_stats()]
    pages += [segments.worker_stats(i) for i in range(segments.workers)]
    return sum(proportional(page.pid) for page in pages if page.pid)


def proportional(pid: int) -> int:
    """Return a process's own memory and its share of shared memory, in bytes; 0 if it is gone."""
    try:
        return int(psutil.Process(pid).memory_full_info().pss)
    except psutil.Error:
        return 0


def figures(pid: int) -> tuple[float, int, list[int]]:
    """Return CPU seconds, memory (as ``proportional``) and allowed CPUs of a process; zeros if it is gone."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return times.user + times.system, proportional(pid), process.cpu_affinity() or []
    except psutil.Error:
        return 0.0, 0, []
