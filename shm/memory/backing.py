"""Memory for the supervisor's pages from the start.

The kernel gives a page of shared memory at its first use, or SIGBUS when others have filled the file system. A child
that this ends is replaced; nobody replaces the supervisor, which writes log lines and clears marks just then.
"""

import os
from typing import TYPE_CHECKING

from shm import native
from shm.contract.roles import Role
from shm.memory.journal import slot_of
from shm.memory.space import DIRECTORY, SegmentError

if TYPE_CHECKING:
    from shm.memory.segment import Segments


def back_supervisor(segments: "Segments") -> None:
    """Back the control segment without the journals of others, the flight recorder's ring, which is read after a core's
    death, and the marks of arenas, which a reset clears.

    Raises SegmentError if there is no room.
    """
    control, places = segments.names.control, segments.places
    _back(control, 0, native.journal_offset(places, 0))
    _back(control, native.journal_offset(places, slot_of(Role.SUPERVISOR, 0, places)), native.JOURNAL_BYTES)
    if segments.flight is not None:
        _back(segments.names.flight, 0, len(segments.flight))
    for place in (*range(segments.workers), places):
        back_marks(segments, place)


def back_marks(segments: "Segments", place: int) -> None:
    """Back the marks of one arena. Raises SegmentError if there is no room."""
    _back(segments.names.arena(place), 0, native.Arena(segments.arenas[place]).first_block)


def _back(name: str, start: int, size: int) -> None:
    try:
        fd = os.open(DIRECTORY / name[1:], os.O_RDWR | os.O_CLOEXEC)
        try:
            os.posix_fallocate(fd, start, size)
        finally:
            os.close(fd)
    except OSError as e:
        raise SegmentError(f"{name} cannot have {size} bytes: {e.strerror}; make room in {DIRECTORY}") from None
