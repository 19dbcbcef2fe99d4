"""The journals: the last lines of each process, readable by all, whole whatever happens to their writer."""

import mmap
from collections.abc import Iterator

import pytest

from shm import native
from shm.memory import journal
from shm.memory.journal import Journal, Line, journal_of, journals, merged

WORKERS = 2


@pytest.fixture
def memory() -> Iterator[mmap.mmap]:
    with mmap.mmap(-1, native.control_bytes(WORKERS)) as memory:
        yield memory


def entry(text: str, when: float = 0.0, module: str = "SERVER", level: str = "info") -> Line:
    return [module, level, text, "file.py", 7, when]


def texts(lines: list[Line]) -> list[str]:
    return [line[2] for line in lines]


def test_lines_come_back_as_they_were_newest_last(memory: mmap.mmap) -> None:
    mine = journal_of(memory, WORKERS, "worker", 1)
    lines = [entry(f"line {n} \N{SNOWMAN} \udc80", n / 4) for n in range(10)]
    for one in lines:
        mine.write(one)
    assert mine.lines(100) == lines
    assert mine.lines(3) == lines[-3:]
    assert mine.lines(0) == []


def test_every_process_has_its_own_slot(memory: mmap.mmap) -> None:
    names = [("worker", 0), ("worker", 1), ("core", 9), ("supervisor", 0), ("recorder", 0), ("exporter", 0)]
    for role, index in names:
        journal_of(memory, WORKERS, role, index).write(entry(f"{role} {index}"))
    every = journals(memory, WORKERS)
    assert [texts(one.lines(9)) for one in every] == [[f"{role} {index}"] for role, index in names]


def test_the_oldest_make_room(memory: mmap.mmap) -> None:
    """Far more than fits, in lines of all lengths: what is there is the end, without a gap."""
    mine = Journal(memory, WORKERS, 0)
    total = 3 * native.JOURNAL_BYTES // 500
    for n in range(total):
        mine.write(entry(f"{n} {'x' * (n * 37 % 1000)}"))
    found = mine.lines(total)
    numbers = [int(text.split()[0]) for text in texts(found)]
    assert numbers == list(range(numbers[0], total))
    assert len(numbers) > native.JOURNAL_BYTES // 1200
    assert [len(text) for text in texts(found)] == [len(f"{n} {'x' * (n * 37 % 1000)}") for n in numbers]


def test_a_long_text_is_cut(memory: mmap.mmap) -> None:
    mine = Journal(memory, WORKERS, 0)
    mine.write(entry("x" * 1_000_000))
    mine.write(entry("\N{SNOWMAN}" * 1_000_000))
    assert texts(mine.lines(9)) == ["x" * journal.LONGEST, "\N{SNOWMAN}" * journal.LONGEST]


@pytest.mark.parametrize("written", [0, 3, 40, 150])
def test_a_writer_killed_within_a_line_leaves_the_others_whole(memory: mmap.mmap, written: int) -> None:
    """The room it had begun to use is lost, nothing else; its successor goes on behind the last line."""
    mine = Journal(memory, WORKERS, 0)
    for n in range(3000):
        mine.write(entry(f"{n} {'x' * 100}"))
    before = mine.lines(3000)
    at = native.journal_offset(WORKERS, 0)
    end = mine._get(8)
    mine._put(0, end + 150)
    room = native.JOURNAL_BYTES - 4096
    for n in range(written):
        memory[at + 4096 + (end + n) % room] = 0xFF
    left = mine.lines(3000)
    assert left == before[-len(left) :]
    assert len(left) >= len(before) - 2
    after = Journal(memory, WORKERS, 0)
    after.write(entry("next"))
    assert texts(after.lines(2)) == [before[-1][2], "next"]


def test_nonsense_ends_what_is_told(memory: mmap.mmap) -> None:
    mine = Journal(memory, WORKERS, 0)
    mine.write(entry("old"))
    at, first = native.journal_offset(WORKERS, 0) + 4096, mine._get(8)
    mine.write(entry("new"))
    memory[at + first - 6] = 0xFF
    assert texts(mine.lines(9)) == ["new"]
    mine._put(8, 2**63)
    assert mine.lines(9) == []


@pytest.mark.parametrize("octet", [0x80, 0xFF])
def test_numbers_that_another_process_has_damaged_end_no_process(memory: mmap.mmap, octet: int) -> None:
    """The supervisor's journal is in reach of a core that goes mad, and its log lines must not end it."""
    mine = Journal(memory, WORKERS, 0)
    mine.write(entry("old"))
    at = native.journal_offset(WORKERS, 0)
    memory[at : at + 4096] = bytes((octet,)) * 4096
    mine.write(entry("new"))
    mine.write(entry("newer"))
    assert texts(mine.lines(9)) == ["new", "newer"]


def test_counts_by_module_and_level(memory: mmap.mmap) -> None:
    mine = Journal(memory, WORKERS, 0)
    for level in ("info", "info", "critical"):
        mine.write(entry("x", module="POLICY", level=level))
    mine.write(entry("x", module="some.library", level="error"))
    counts = mine.counts()
    assert counts["POLICY"] == dict.fromkeys(journal.LEVELS, 0) | {"info": 2, "critical": 1}
    assert counts["DEFAULT"]["error"] == 1
    assert sum(sum(levels.values()) for levels in counts.values()) == 4


def test_merged_by_time(memory: mmap.mmap) -> None:
    one, other = Journal(memory, WORKERS, 0), Journal(memory, WORKERS, 1)
    for n in range(10):
        (one if n % 3 else other).write(entry(str(n), float(n)))
    assert texts(merged([one, other], 100)) == [str(n) for n in range(10)]
    assert texts(merged([one, other], 4)) == ["6", "7", "8", "9"]
