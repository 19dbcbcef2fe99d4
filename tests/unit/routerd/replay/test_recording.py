"""Recordings as files: what is refused, where a recording begins, and how it is cut down."""

import mmap
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bench import contract as n
from core.forwarder.forward import NOTHING
from core.forwarder.link_terms import LinkTerms
from core.forwarder.recorded import Forwarder
from routerd.replay.minimise import minimised
from routerd.replay.recording import Recording
from routerd.replay.run import Replay
from routerd.replay.told import step_told
from shm.memory import flight
from shm.memory.flight import RecordingError, Taken
from tests.model.memory import Memory


class Bed:
    """A core with a sender (worker 0) and a receiver (worker 1), recorded from its first call on."""

    def __init__(self, lines: int = 4096, texts: bool = False) -> None:
        self.memory = Memory(2, n.RING_CAPACITY)
        self.ring = mmap.mmap(-1, flight.ring_bytes(lines))
        rings = self.memory.rings
        self.forwarder = Forwarder(2, self.memory.control, rings, self.memory.arenas, [-1, -1])
        self.forwarder.record(self.ring, texts=texts)
        self.actions = [n.Producer(rings, n.action_ring_offset(w)) for w in range(2)]
        self.work = [n.Consumer(rings, n.work_ring_offset(w)) for w in range(2)]
        self.address = self.forwarder.add_address(1)
        self.forwarder.set_text(self.address, b"a-secret-address")
        self.forwarder.add_alias(b"a-secret-address", self.address)
        self.forwarder.add_link(0, 0, 1, LinkTerms(False, self.address, 250))
        self.forwarder.add_link(1, 0, 1, LinkTerms(True, self.address, 250))
        self.now = 1

    def act(self, worker: int, **fields: int) -> None:
        assert self.actions[worker].push(n.pack(**fields))
        self.actions[worker].publish()
        self.now += 1
        assert self.forwarder.step(self.now) == NOTHING

    def heard(self, worker: int) -> list[dict[str, int]]:
        found = []
        while (record := self.work[worker].pop()) is not None:
            found.append(n.unpack(record))
        self.work[worker].give_back()
        return found

    def exchange(self, number: int = 1) -> None:
        """Messages and their outcomes."""
        for peer in range(number):
            whole = {"flags": n.F_COMPLETE, "length": 5}
            self.act(0, type=n.A_DELIVER, link=0, link_gen=1, block=1, peer=1 << 32 | peer, **whole)
            (send,) = [one for one in self.heard(1) if one["type"] == n.W_SEND]
            settled = {"flags": n.F_SETTLED, "state": n.S_ACCEPTED, "block": 0xFFFFFFFF}
            self.act(1, type=n.A_UPDATE, delivery=send["peer"], **settled)
            self.heard(0)

    def take(self, last: float | None = None) -> Taken:
        return flight.take(self.ring, "me", "0", "a test", last, running=False)

    def recording(self) -> Recording:
        taken = self.take()
        return Recording(taken.about, taken.lines)


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


def test_what_replay_does_not_know_is_said() -> None:
    """A network, for one."""
    bed = Bed()
    assert bed.forwarder.recorder is not None
    bed.forwarder.recorder.blind()
    with pytest.raises(RecordingError, match="which replay does not know yet"):
        Replay(bed.recording())


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
