"""Recordings as files: what is refused, where a recording begins, and how it is cut down."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bench import contract as n
from routerd.replay.minimise import minimised
from routerd.replay.recording import Recording
from routerd.replay.run import Replay
from routerd.replay.told import step_told
from shm.memory import flight
from shm.memory.flight import RecordingError
from tests.support.beds.recorded import Bed
from tests.support.tree import ROOT

ENTRY_POOL = 2  # shm/memory/flight.h


def test_the_same_work(tmp_path: Path) -> None:
    """A file replays to the work that it has, and its steps are told in AMQP's words."""
    bed = Bed()
    bed.exchange(3)
    bed.take().write(tmp_path / "it")
    recording = Recording.load(tmp_path / "it")
    assert Replay(recording).run() is None
    told = "\n".join(step_told(recording, step) for step in recording.steps())
    assert "worker 0 > TRANSFER link 0.1 complete as 0.1 block 0:1 octets 5" in told
    assert "worker 1 > DISPOSITION link 0.0 accepted settled" in told
    assert "worker 0 < DISPOSITION link 0.1 accepted settled incoming" in told


@pytest.mark.parametrize("texts", [False, True])
def test_addresses_stand_in_it_only_if_allowed(texts: bool) -> None:
    """Their hashes always do."""
    assert (b"a-secret-address" in Bed(texts=texts).take().lines) is texts


def test_other_work_is_a_difference() -> None:
    """It says which record differs, and how."""
    bed = Bed()
    bed.exchange(2)
    recording = bed.recording()
    (first, *_) = [step for step in recording.steps() if step.kind == "work" and step.octets[0] == n.W_SEND]
    at = first.number * flight.LINE
    changed = bytearray(recording.lines)
    changed[at + 2] ^= 7
    difference = Replay(Recording(recording.about, bytes(changed))).run()
    assert difference is not None
    assert difference.number == first.number
    assert difference.replayed == first.octets
    assert Replay(Recording(recording.about, bytes(changed))).run(before=first.number) is None


def test_a_checkpoint_is_enough() -> None:
    """A ring that has lost its beginning replays from one; a core without any cannot be replayed."""
    bed = Bed(8192)
    bed.exchange(2500)
    recording = bed.recording()
    assert not recording.about.whole
    assert recording.lines[0] == flight.CHECKPOINT
    assert Replay(recording).run() is None
    small = Bed(1024)  # no room for a checkpoint
    small.exchange(500)
    with pytest.raises(RecordingError, match="the ring held neither the core's begin nor a checkpoint"):
        Replay(small.recording())


@pytest.mark.parametrize(("chunks", "why"), [(1024, "entries of a table are missing"), (1025, "has no such size")])
def test_a_table_is_no_larger_than_a_core_records(chunks: int, why: str) -> None:
    """So a file takes no more memory than that: 1,024 chunks of a table."""
    bed = Bed(8192)
    bed.exchange(2500)
    recording = bed.recording()
    lines = bytearray(recording.lines)
    octets = bytes([flight.ENTRY, 0]) + ENTRY_POOL.to_bytes(2, "little")
    at = next(at for at in range(0, len(lines), flight.LINE) if lines[at : at + 4] == octets)
    body = at + flight.LINE - flight.INLINE
    assert int.from_bytes(lines[body : body + 4], "little") == 0  # the table of incoming deliveries
    lines[body + 4 : body + 8] = chunks.to_bytes(4, "little")
    with pytest.raises(RecordingError, match=why):
        Replay(Recording(recording.about, bytes(lines))).run()


@pytest.mark.parametrize(("addresses", "written"), [(20_000, 1), (40_000, 0)])
def test_a_checkpoint_is_no_longer_than_messages_may_wait(addresses: int, written: int) -> None:
    """It takes 131,072 lines at most, also where an eighth of the ring is four times that."""
    bed = Bed(1 << 22)
    for _ in range(addresses):
        bed.forwarder.add_address(1)
    while flight.header(bed.ring).head < 1 << 20:  # a quarter of the ring
        bed.long_call(flight.OCTETS_MOST)
    bed.exchange()
    after = flight.header(bed.ring)
    assert (after.checkpoints, after.skipped) == (written, 1 - written)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda octets: b"", "does not begin as one"),
        (lambda octets: octets[:30], "cut off in its head"),
        (lambda octets: octets + b"\0", "octets of records"),
        (lambda octets: octets.replace(b"\xa7workers\x02", b"\xa7workers\x7f"), "tells of 127 workers"),
    ],
)
def test_a_file_that_is_none(change: Callable[[bytes], bytes], why: str) -> None:
    """The text names what is wrong."""
    bed = Bed()
    octets = bed.recording().octets(bed.recording().lines)
    with pytest.raises(RecordingError, match=why):
        Recording.parse(change(octets))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (bytes([1]) + bytes(63), "an action of no worker"),
        (bytes([200]) + bytes(63), "its type 200 is unknown"),
        (bytes([flight.BATCH, 9]) + bytes(62), "there is no worker 9"),
        (bytes([flight.MORE]) + bytes(63), "it belongs to no record before it"),
        (bytes([flight.CALL, 0, 255, 255]) + bytes(60), "call number 65535 is unknown"),
        (bytes([flight.CALL]) + bytes(15) + b"\xff\xff\xff\x7f" + bytes(44), "more than any call"),
    ],
)
def test_lines_that_make_no_sense(line: bytes, why: str) -> None:
    """The text names the record."""
    about = msgspec.structs.replace(Bed().take().about, lines=1)
    with pytest.raises(RecordingError, match=f"record [01].*{why}"):
        Replay(Recording(about, line)).run()


def test_minimising_leaves_out_what_follows_the_death() -> None:
    """Those who call tell which line the core has reached, and hear how many steps are left after each round."""
    bed = Bed()
    bed.exchange(4)
    recording = bed.recording()
    left: list[int] = []
    tried: list[Recording] = []
    last = [step.number for step in recording.steps() if step.kind == "call"][-1]

    def same(one: Recording) -> bool:
        tried.append(one)
        return True

    small = minimised(recording, same, last=last, told=left.append)
    assert {step.kind for step in tried[0].steps()} == {"call"}
    assert len(list(small.steps())) == 1
    assert left[-1] == 1


def test_an_interrupt_ends_minimising_with_what_it_has() -> None:
    """It may have taken hours."""
    bed = Bed()
    bed.exchange(20)
    recording = bed.recording()
    calls: list[int] = []

    def same(_: Recording) -> bool:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return True

    small = minimised(recording, same)
    assert len(calls) == 3
    assert 0 < small.about.lines < recording.about.lines


def test_minimising_keeps_what_counts() -> None:
    """Of many steps two are left, in their order."""
    bed = Bed()
    bed.exchange(40)
    bed.act(1, type=n.A_DRAIN, link=0, link_gen=1)
    bed.exchange(40)

    def drains(recording: Recording) -> bool:
        kinds = [step.octets[0] if step.kind == "action" else step.what for step in recording.steps()]
        return n.A_DRAIN in kinds and 7 in kinds[: kinds.index(n.A_DRAIN)]  # a link is added before

    small = minimised(bed.recording(), drains)
    assert [step.kind for step in small.steps()] == ["call", "action"]
    assert small.about.whole


def meanwhile(monkeypatch: pytest.MonkeyPatch, bed: Bed, what: Callable[[Bed], None]) -> list[int]:
    """Have something happen between the copy of a ring and the second look at its header; return the looks."""
    real = flight.header
    looks: list[int] = []

    def header(_: object) -> flight.Header:
        looks.append(1)
        if len(looks) == 2:
            what(bed)
        return real(bed.ring)

    monkeypatch.setattr(flight, "header", header)
    return looks


def test_a_busy_ring_is_copied_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the core replaces while the ring is copied is left out, and what is left replays."""
    bed = Bed(16384)
    bed.exchange(5000)
    real = flight.header
    looks = meanwhile(monkeypatch, bed, lambda bed: bed.exchange(300))
    taken = flight.take(bed.ring, "me", "0", "a test", running=True)
    assert len(looks) == 2
    recording = Recording(taken.about, taken.lines)
    assert recording.lines[0] == flight.CHECKPOINT
    assert Replay(recording).run() is None
    looks.clear()
    after = real(bed.ring)
    taken = flight.take(bed.ring, "me", "0", "a test", running=True)
    oldest = real(bed.ring).head - 16384
    assert taken.about.first >= oldest
    assert taken.about.first + taken.about.lines == after.head


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (lambda bed: bed.exchange(600), "faster than its records can be copied; raise flightRecords"),
        (lambda bed: bed.forwarder.record(bed.ring, 2), "the core died meanwhile; try again"),
    ],
)
def test_a_ring_that_cannot_be_copied(monkeypatch: pytest.MonkeyPatch, what: Callable[[Bed], None], why: str) -> None:
    """The text says what to do."""
    bed = Bed(1024)
    bed.exchange(500)
    meanwhile(monkeypatch, bed, what)
    with pytest.raises(RecordingError, match=why):
        flight.take(bed.ring, "me", "0", "a test", running=True)


def test_the_smallest_ring_of_a_running_core() -> None:
    """It has a recording that replays."""
    assert flight.segment_bytes(1) == flight.ring_bytes(16384)
    assert flight.segment_bytes(0) == 0
    bed = Bed(16384)
    bed.exchange(5000)
    taken = flight.take(bed.ring, "me", "0", "a test", running=True)
    assert taken.about.lines > 0
    assert Replay(Recording(taken.about, taken.lines)).run() is None


@pytest.mark.parametrize("field", ["arena_bytes", "core_arena_bytes"])
def test_arenas_that_no_router_has(field: str) -> None:
    """Formatting one of a TiB would take all memory of the machine."""
    recording = Bed().recording()
    about = msgspec.structs.replace(recording.about, **{field: 1 << 41})
    with pytest.raises(RecordingError, match="arenas that cannot be"):
        Recording.parse(Recording(about, recording.lines).octets(recording.lines))


def test_a_deep_call_is_refused() -> None:
    """Arrays in arrays, as deep as a call is long."""
    about = msgspec.structs.replace(Bed().take().about, lines=0)
    octets = b"\x91" * 100_000
    lines = bytes([flight.CALL]) + bytes(15) + len(octets).to_bytes(4, "little") + bytes(4) + octets[: flight.INLINE]
    for at in range(flight.INLINE, len(octets), flight.MORE_OCTETS):
        lines += bytes([flight.MORE]) + octets[at : at + flight.MORE_OCTETS].ljust(flight.MORE_OCTETS, b"\0")
    recording = Recording(msgspec.structs.replace(about, lines=len(lines) // flight.LINE), lines)
    (step,) = recording.steps()
    assert "its arguments make no sense" in step_told(recording, step)
    with pytest.raises(RecordingError, match="makes no sense: RecursionError"):
        Replay(recording).run()


@pytest.mark.parametrize("place", ["fifo", "/dev/zero"])
def test_what_is_no_file_is_refused(tmp_path: Path, place: str) -> None:
    """A pipe without a writer would never end, and /dev/zero neither."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(RecordingError, match="no regular file"):
        Recording.load(tmp_path / place)


def test_a_file_beside_it_stays(tmp_path: Path) -> None:
    """Whatever others have put there, under whatever name."""
    (tmp_path / "it.new").write_text("mine")
    (tmp_path / "it").write_text("old")
    (tmp_path / "it").chmod(0o644)
    Bed().take().write(tmp_path / "it")
    assert (tmp_path / "it").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "it.new").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["it", "it.new"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """Its place is taken by a folder."""
    (tmp_path / "it").mkdir()
    with pytest.raises(IsADirectoryError):
        Bed().take().write(tmp_path / "it")
    assert os.listdir(tmp_path) == ["it"]


def test_work_that_a_worker_has_changed() -> None:
    """It can write its ring: neither an index nor a type leads the recorder astray."""
    bed = Bed(16384)
    bed.exchange(1)
    bed.corrupt(1)
    bed.act(0, type=n.A_DELIVER, link=0, link_gen=1, block=1, peer=1 << 32 | 9, flags=n.F_COMPLETE, length=5)
    assert len(list(bed.recording().steps())) < 16384


@pytest.mark.parametrize("octets", [flight.OCTETS_MOST + 1, 512 * flight.MORE_OCTETS])
def test_a_call_that_no_reader_would_take(octets: int) -> None:
    """It is left out, and the recording says that it cannot be replayed: longer than any, or than half of the ring."""
    bed = Bed(1024 if octets < flight.OCTETS_MOST else 1 << 16)
    before = flight.header(bed.ring)
    bed.long_call(octets)
    after = flight.header(bed.ring)
    assert (before.head, before.blind, after.blind) == (after.head, 0, 1)


def test_the_numbers_of_both_languages() -> None:
    """flight.h and flight.py."""
    source = (ROOT / "shm/memory/flight.h").read_text()
    numbers = {name: int(number) for name, number in re.findall(r"FLIGHT_([A-Z_]+) = (\d+)", source)}
    assert len(numbers) == 19
    for name, number in re.findall(r"#define FLIGHT_([A-Z_]+) (\(?1?u? ?<?<? ?\d+u?\)?)[ \n]", source):
        parts = [int(part) for part in re.findall(r"\d+", number)]
        numbers[name] = parts[0] if len(parts) == 1 else parts[0] << parts[1]
    ours = {"HEADER": "HEADER_BYTES", "LINE": "LINE_BYTES"}
    compared = ["HEADER", "LINE", "LEAST", "MOST", "INLINE", "MORE_OCTETS", "OCTETS_MOST"]
    compared += [name for name in numbers if name in vars(flight) and name not in compared]
    assert len(compared) == 22
    for name in compared:
        assert getattr(flight, name) == numbers[ours.get(name, name)], name
