"""The board: a whole or nothing, bounded, and readable from a read-only mapping."""

import mmap
import os
import struct
from pathlib import Path

import pytest

from bench import contract
from shm.memory import segment
from shm.memory.observer import SharedView
from shm.statistics import board, stats
from shm.statistics.board import AddressRow, Board, ConnectionRow

ODD = 1


def make() -> tuple[mmap.mmap, contract.Board]:
    memory = mmap.mmap(-1, contract.control_bytes(1))
    contract.format_control(memory, 1, 1 << 20)
    return memory, contract.Board(memory, contract.board_offset(1))


def test_what_is_written_is_read() -> None:
    """Again and again, also shorter than before."""
    _, shown = make()
    assert shown.read() == b""
    for content in (b"x" * contract.BOARD_ROOM, b"short", b"", b"123456789"):
        shown.write(content)
        assert shown.read() == content
    with pytest.raises(ValueError, match="holds"):
        shown.write(b"x" * (contract.BOARD_ROOM + 1))


def test_half_written_is_nothing_and_a_successor_repairs_it() -> None:
    """A writer that died in the middle leaves an odd version: nobody reads that; the next writer goes on."""
    memory, shown = make()
    shown.write(b"before")
    at = contract.board_offset(1)
    struct.pack_into("=I", memory, at, struct.unpack_from("=I", memory, at)[0] + ODD)
    assert shown.read() == b""
    shown.write(b"after")
    assert shown.read() == b"after"


def test_an_absurd_length_is_nothing() -> None:
    """What stands in shared memory is checked."""
    memory, shown = make()
    shown.write(b"before")
    struct.pack_into("=I", memory, contract.board_offset(1) + 4, contract.BOARD_ROOM + 1)
    assert shown.read() == b""


def test_rows_survive_the_journey_and_nonsense_is_none() -> None:
    """Encode and decode agree."""
    content = Board([AddressRow("a", "balanced", 1, 2, 3)], 4, [ConnectionRow(0, "c", "h:1", "normal", "u")], 5)
    assert board.decode(board.encode(content)) == content
    assert board.decode(b"") is None
    assert board.decode(b"\xc1") is None
    assert board.decode(b"\x93\x01\x02\x03") is None


@pytest.mark.parametrize("text", ["é" * 500, "x" * 161, "\udcff" * 200, "a" * 147 + "é" * 20])
def test_long_texts_are_cut_and_stay_different(text: str) -> None:
    """At most 160 bytes of valid UTF-8; two that begin alike are still told apart."""
    cut = board.short(text)
    assert len(cut.encode()) <= board.TEXT
    assert cut != board.short(text + "x")


def test_whatever_is_shown_fits() -> None:
    """The largest rows there can be are cut to what has room; addresses go last."""
    text = "x" * board.TEXT
    rows = [AddressRow(f"{i}" + text[: -len(str(i))], text, 2**64 - 1, 2**32, 2**32) for i in range(board.ADDRESSES)]
    connections = [ConnectionRow(63, text, text, text, text)] * board.CONNECTIONS
    data = board.encode(Board(rows, 2**64 - 1, connections, 2**32))
    assert len(data) <= contract.BOARD_ROOM
    kept = board.decode(data)
    assert kept is not None
    assert kept.addresses == rows
    assert len(board.encode(Board(rows * 20, 0, connections, 0))) <= contract.BOARD_ROOM


def test_a_shared_view_reads_and_cannot_write() -> None:
    """It maps read-only: numbers, rings, board; and it follows segments that are made anew."""
    prefix = segment.segment_prefix("test-board", os.getpid())
    with segment.create(prefix, 2, 1) as segments:
        segments.board().write(board.encode(Board(other=7)))
        page = segments.worker_stats(1)
        page.own(4711, 3)
        page.add(stats.COUNTERS["bytes_in"].place, 9)
        contract.observe(page, 0, 1000)
        producer = contract.Producer(segments.rings, contract.action_ring_offset(1))
        producer.push(contract.pack(type=1))
        producer.publish()
        view = SharedView(prefix)
        assert view.processes == ("worker-0", "worker-1", "core", "supervisor")
        seen = view.page("worker-1")
        assert (seen.pid, seen.generation, seen.counters["bytes_in"]) == (4711, 3, 9)
        assert view.histogram("worker-1", "delivery_latency_ns").sum == 1000
        assert {ring for ring in view.rings() if ring.records} == {("worker-1", "actions", 1)}
        assert view.board().other == 7
        assert view.arena_bytes == 1 << 20
        with pytest.raises(TypeError, match="read only"):
            view._pages["core"].add(0)
        with pytest.raises(TypeError, match="read only"):
            view._board.write(b"")
        view.look_again()
        assert view.page("worker-1").pid == 4711
        del page, producer
    with pytest.raises(segment.SegmentError, match="gone"):
        view.look_again()
    with segment.create(prefix, 1, 1) as segments:
        view.look_again()
        assert view.processes == ("worker-0", "core", "supervisor")
    assert not list(Path("/dev/shm").glob(f"{prefix[1:]}*"))


def test_a_look_at_a_router_that_begins_is_taken_again() -> None:
    """It has made one segment and not the other yet: until it has both, the view is the former one."""
    prefix = segment.segment_prefix("test-begin", os.getpid())
    with segment.create(prefix, 2, 1) as segments:
        view = SharedView(prefix)
    with segment.create(prefix, 1, 1) as segments:
        rings = Path(f"/dev/shm{segments.names.rings}")
        hidden = rings.rename(rings.with_suffix(".hidden"))
        for _ in range(2):
            with pytest.raises(segment.SegmentError, match="rings cannot be opened"):
                view.look_again()
            assert view.processes == ("worker-0", "worker-1", "core", "supervisor")
        hidden.rename(rings)
        view.look_again()
        assert view.processes == ("worker-0", "core", "supervisor")


def test_what_is_no_router_is_refused() -> None:
    """The error says what to do."""
    with pytest.raises(segment.SegmentError, match="is its router running"):
        SharedView("/routerd-test-nobody-1")
