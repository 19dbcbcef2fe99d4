"""The journals: the last log lines of every process, dead ones included, in shared memory for GET-LOG.

Each process has a slot after the board of the control segment (layout.h). Only that process writes to it, any
process may read. The layout of a slot:

    0        begin: bytes written since the router's start, the unfinished line included
    8        end: bytes of finished lines since the router's start
    64       numbers of lines: unsigned 64-bit integers, a row for each module, a column for each level
    4096     a ring of lines: u32 length, JSON, the same length again

An unfinished line overwrites only the oldest ones, and a reader ignores all before `begin` minus the ring's
size. A process killed while it writes leaves all other lines intact. Numbers that another process has damaged
are begun anew: a log line ends no process.
"""

import heapq
import json
import mmap
import struct
import threading
from itertools import islice
from typing import Any, Final

from shm import native
from shm.contract.roles import Role

TRACE: Final = 5
NOTICE: Final = 25
LEVELS: Final = {
    "trace": TRACE, "debug": 10, "info": 20, "notice": NOTICE, "warning": 30, "error": 40, "critical": 50,
}  # fmt: skip
MODULES: Final = (
    "ROUTER", "ROUTER_CORE", "ROUTER_HELLO", "ROUTER_LS", "ROUTER_MA", "MESSAGE", "SERVER", "AGENT",
    "AUTHSERVICE", "CONTAINER", "ERROR", "POLICY", "HTTP", "CONN_MGR", "PYTHON", "PROTOCOL", "DEFAULT",
)  # fmt: skip
LONGEST: Final = 4000  # characters of a text; longer ones are cut

_OTHERS: Final = (Role.CORE, Role.SUPERVISOR, Role.RECORDER, Role.EXPORTER)
_COUNTS: Final = 64
_LINES: Final = 4096
_RING: Final = native.JOURNAL_BYTES - _LINES
_SENSELESS: Final = 1 << 63  # bytes or lines, which nobody has written
_LENGTH: Final = struct.Struct("<I")
_NUMBER: Final = struct.Struct("<Q")
_COLUMNS: Final = {name: column for column, name in enumerate(LEVELS)}
_ROWS: Final = {name: row for row, name in enumerate(MODULES)}

Line = list[Any]  # module, level, text, file, line, seconds since 1970 as a float


class Journal:
    """One process's slot; ``memory`` is the control segment, ``slot`` a value of ``slot_of``."""

    def __init__(self, memory: mmap.mmap, places: int, slot: int) -> None:
        self._memory = memory
        self._at = native.journal_offset(places, slot)
        self._lock = threading.Lock()

    def write(self, line: Line) -> None:
        """Append a line and count it; only the slot's owner may call this."""
        line = [*line[:2], line[2][:LONGEST], *line[3:]]
        text = json.dumps(line).encode()
        if len(text) > _RING // 8:
            text = json.dumps([*line[:2], "(too long)", *line[3:]]).encode()
        length = _LENGTH.pack(len(text))
        with self._lock:
            self._append(length + text + length)
            self._count(str(line[0]), str(line[1]))

    def lines(self, limit: int) -> list[Line]:
        """Return the last lines, the newest at the end."""
        end = self._get(8)
        if not end:
            return []  # reading the unused ring would allocate its pages
        ring = self._memory[self._at + _LINES : self._at + _LINES + _RING]
        oldest = max(0, max(self._get(0), end) - _RING)  # an unfinished line may have overwritten the rest
        found: list[Line] = []
        while len(found) < limit and end - 8 >= oldest:
            (length,) = _LENGTH.unpack(_part(ring, end - 4, 4))
            begin = end - length - 8
            if begin < oldest or _LENGTH.unpack(_part(ring, begin, 4)) != (length,):
                break
            try:
                found.append(json.loads(_part(ring, begin + 4, length)))
            except ValueError:
                break
            end = begin
        return found[::-1]

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the numbers of lines written since the router's start, by module and level."""
        start = self._at + _COUNTS
        size = len(MODULES) * len(LEVELS)
        numbers = iter(struct.unpack_from(f"<{size}Q", self._memory, start))
        return {module: dict(zip(LEVELS, islice(numbers, len(LEVELS)), strict=True)) for module in MODULES}

    def _append(self, data: bytes) -> None:
        end, begin = self._get(8), self._get(0)
        if end > begin or begin > end + _RING or begin >= _SENSELESS:
            end = begin = 0
        self._put(0, max(begin, end + len(data)))
        start = end % _RING
        first = data[: _RING - start]
        at = self._at + _LINES
        self._memory[at + start : at + start + len(first)] = first
        self._memory[at : at + len(data) - len(first)] = data[len(first) :]
        self._put(8, end + len(data))

    def _count(self, module: str, level: str) -> None:
        row, column = _ROWS.get(module, _ROWS["DEFAULT"]), _COLUMNS.get(level, 0)
        offset = _COUNTS + 8 * (row * len(LEVELS) + column)
        self._put(offset, (self._get(offset) + 1) % _SENSELESS)

    def _get(self, offset: int) -> int:
        number: int = _NUMBER.unpack_from(self._memory, self._at + offset)[0]
        return number

    def _put(self, offset: int, value: int) -> None:
        _NUMBER.pack_into(self._memory, self._at + offset, value)


def _part(ring: bytes, start: int, length: int) -> bytes:
    start %= _RING
    part = ring[start : start + length]
    return part + ring[: length - len(part)]


def journal_of(memory: mmap.mmap, places: int, role: Role, index: int = 0) -> Journal:
    """Return the journal of a process; ``index`` is that of a worker."""
    return Journal(memory, places, slot_of(role, index, places))


def journals(memory: mmap.mmap, places: int) -> list[Journal]:
    """Return the journals of all processes."""
    return [Journal(memory, places, slot) for slot in range(places + len(_OTHERS))]


def slot_of(role: Role, index: int, places: int) -> int:
    """Return the slot of a process: workers from 0, then core, supervisor, recorder and exporter."""
    return index if role == Role.WORKER else places + _OTHERS.index(role)


def merged(journals: list[Journal], limit: int) -> list[Line]:
    """Return the last ``limit`` lines of all journals in the order of their times, the newest at the end."""
    lines = heapq.merge(*(journal.lines(limit) for journal in journals), key=lambda line: line[5])
    return list(lines)[-limit:]
