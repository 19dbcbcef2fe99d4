"""What the operating system knows of the router's processes."""

import psutil

from shm.segment import Segments


def pids(segments: Segments) -> list[int]:
    """The living processes of the router: supervisor, core, recorder, workers."""
    pages = [segments.supervisor_stats(), segments.core_stats(), segments.recorder_stats()]
    pages += [segments.worker_stats(i) for i in range(segments.workers)]
    known = [page.pid for page in pages]
    return [pid for pid in known if pid]


def memory_usage(segments: Segments) -> int:
    """Bytes of memory of all processes, what they share counted once."""
    return sum(proportional(pid) for pid in pids(segments))


def proportional(pid: int) -> int:
    """A process's own memory and its part of what it shares, bytes; 0: it is gone."""
    try:
        return int(psutil.Process(pid).memory_full_info().pss)
    except psutil.Error:
        return 0


def figures(pid: int) -> tuple[float, int, list[int]]:
    """CPU seconds, memory (as ``proportional``) and the CPUs it may run on; zeros: it is gone."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        return times.user + times.system, proportional(pid), process.cpu_affinity() or []
    except psutil.Error:
        return 0.0, 0, []
