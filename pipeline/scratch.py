"""Directories for Spark's temporary files: each session has one and removes it at its end.

The session holds a lock on a file in it. If nobody has locked that file, the session was killed, and the next one
removes the directory. A directory with another name, or without such a file, is somebody else's.
"""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "routerd-spark-"
NAME: Final = rf"{PREFIX}[a-z0-9_]{{8}}"
MARKER: Final = "_routerd_scratch"


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a directory for a session, and remove what killed sessions left."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if re.fullmatch(NAME, path.name) and not path.is_symlink():
            with suppress(OSError):  # it is in use, has no marker, or belongs to another user
                _remove_left(path)
    made = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = os.open(made / MARKER, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, f"{os.getpid()}\n".encode())  # from now on whoever gets the lock may remove it
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(lock)


def _remove_left(path: Path) -> None:
    """Remove a directory. Raises ``OSError`` if it is in use, or no session made it."""
    lock = os.open(path / MARKER, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_size:  # otherwise its session has not locked it yet
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
