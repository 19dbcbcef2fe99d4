"""A check that shared memory has room for a router, before its segments are created or grow."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

from shm import native

DIRECTORY: Final = Path("/dev/shm")  # noqa: S108 - where Linux keeps POSIX shared memory, not a temporary file of ours
MIB: Final = 1024 * 1024


class SegmentError(Exception):
    """Shared memory cannot be created or attached."""


def segments() -> list[str]:
    """Return the names of all segments of shared memory on this machine, sorted; none where it has no such folder."""
    try:
        return sorted(os.listdir(DIRECTORY))
    except FileNotFoundError:
        return []


def open_file(name: str) -> int:
    """Return a descriptor to read a file of shared memory. Raises OSError, also for what is no file.

    Every user may make names there: of a pipe, whose opening would wait for a writer, or of a link to somewhere else.
    """
    fd = os.open(DIRECTORY / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no file")
    return fd


def free_mib() -> int | None:
    """Return how many MiB are free for shared memory; None if there is no limit, or nobody knows.

    Raises OSError if there is no such file system.
    """
    status = os.statvfs(DIRECTORY)
    return status.f_bavail * status.f_frsize // MIB if status.f_blocks else None  # a tmpfs without a limit has 0 blocks


def check_space(workers: int, arena_mib: int, has: int = 0, ring: int = 0) -> None:
    """Raise SegmentError unless there is room for ``workers`` workers, of which ``has`` exist already.

    ``ring`` is the size of the flight recorder's ring in octets, if it is still to be made.

    The kernel allocates a page at its first use: without this check, a file system that is too small would
    kill a worker much later.
    """
    if workers > native.MAX_WORKERS:
        raise SegmentError(f"{workers} workers: 1 to {native.MAX_WORKERS} are possible; change `workers`")
    if workers <= has:
        return
    need = (workers - has) * arena_mib * MIB + ring
    if not has:
        need += native.control_bytes(workers) + native.rings_bytes(workers) + native.CORE_ARENA_BYTES
    try:
        free = free_mib()
    except OSError as e:
        raise SegmentError(f"{DIRECTORY} cannot be used: {e.strerror}; mount a tmpfs there") from None
    more = " more" if has else ""
    recorder = f" and a flight recorder of {ring // MIB} MiB" if ring else ""
    if free is not None and need > free * MIB:
        raise SegmentError(
            f"{workers} workers with arenas of {arena_mib} MiB{recorder} need {-(-need // MIB)} MiB{more} in "
            f"{DIRECTORY}, but only {free} MiB are free; lower `workers`, `arenaSize` or `flightRecords`, or enlarge "
            f"{DIRECTORY} "
            f"(mount -o remount,size=..., in a container --shm-size)"
        )
