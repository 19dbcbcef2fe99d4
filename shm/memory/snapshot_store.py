"""The snapshots among a router's segments: the active tables that a core leaves to the next one."""

import zlib
from pathlib import Path
from typing import Final

from shm.memory.space import DIRECTORY

PATTERN: Final = r"table-[0-9a-f]+(?:\.new)?"  # follows the prefix of the segments


def place(prefix: str, name: str) -> Path:
    """Return the path of a route table's snapshot; ``prefix`` is that of the segments."""
    return DIRECTORY / f"{prefix.removeprefix('/')}-table-{zlib.crc32(name.encode()):08x}"


def clear(prefix: str) -> None:
    """Remove the snapshots of all route tables."""
    for path in DIRECTORY.glob(f"{prefix.removeprefix('/')}-table-*"):
        path.unlink(missing_ok=True)
