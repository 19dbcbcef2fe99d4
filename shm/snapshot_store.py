"""Files among a router's segments that one core leaves to the next: what is in use of its route tables."""

import zlib
from pathlib import Path
from typing import Final

from shm.space import DIRECTORY

PATTERN: Final = r"table-[0-9a-f]+(?:\.new)?"  # behind the prefix of the segments


def place(prefix: str, name: str) -> Path:
    """Where that of a route table is kept; ``prefix`` is that of the segments."""
    return DIRECTORY / f"{prefix.removeprefix('/')}-table-{zlib.crc32(name.encode()):08x}"


def clear(prefix: str) -> None:
    """Remove all of them."""
    for path in DIRECTORY.glob(f"{prefix.removeprefix('/')}-table-*"):
        path.unlink(missing_ok=True)
