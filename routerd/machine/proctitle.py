"""Changes the command line that process lists show for this process.

The kernel reads a process's command line from its own memory (proc(5): /proc/pid/cmdline, and the fields
arg_start and arg_end of /proc/pid/stat).
"""

import ctypes
from pathlib import Path

_ARG_START = 48 - 3  # counted after the name of the program, which may contain anything


def call(words: list[str], instead_of: str) -> None:
    """Replace the command line from an argument on, if there is room for the new words."""
    before = Path("/proc/self/cmdline").read_bytes()
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[_ARG_START]), int(fields[_ARG_START + 1])
    kept = before.find(b"\0" + instead_of.encode() + b"\0") + 1
    after = b"".join(word.encode() + b"\0" for word in words)
    room = end - start - kept
    if kept and start and len(before) == end - start and len(after) <= room:
        ctypes.memmove(start + kept, after.ljust(room, b"\0"), room)
