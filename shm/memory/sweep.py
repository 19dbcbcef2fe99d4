"""The removal of shared memory that killed routers left."""

import fcntl
import os
import re
from typing import Final

from shm.memory.segment import remove_file
from shm.memory.snapshot_store import PATTERN
from shm.memory.space import open_file, segments

_MEMBER: Final = re.compile(
    rf"(routerd-.*-\d+)-(?:control|rings|flow|flight|arena-\d+|{PATTERN})|sem\.(routerd-.*-\d+)-core"
)


def sweep() -> list[str]:
    """Remove what dead routers left in /dev/shm and return the file names; live routers' files stay."""
    families: dict[str, list[str]] = {}
    for name in segments():
        if (match := _MEMBER.fullmatch(name)) is not None:
            families.setdefault(match[1] or match[2], []).append(name)
    removed = []
    for family, members in families.items():
        removed += _sweep_family(f"{family}-control", members)
    return removed


def owners(files: list[str]) -> list[str]:
    """Return the prefixes of the routers that files of shared memory belonged to, sorted."""
    matches = filter(None, map(_MEMBER.fullmatch, files))
    return sorted({match[1] or match[2] for match in matches})


def _sweep_family(control: str, members: list[str]) -> list[str]:
    try:
        fd = open_file(control)
    except FileNotFoundError:
        return [name for name in members if name != control and remove_file(name)]  # the control segment goes last
    except OSError:
        return []  # another user's
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(fd).st_nlink:
            return []  # another sweeper was faster, and a new router may have the name now
        return [name for name in sorted(members, key=control.__eq__) if remove_file(name)]
    except BlockingIOError:
        return []  # its owner is alive
    finally:
        os.close(fd)
