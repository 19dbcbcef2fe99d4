"""Whatever stands in a segment: it is refused with a reason, or used without a crash.

The fuzzing target `memory` looks for steps outside the segment, under AddressSanitizer.
"""

import contextlib
import mmap
import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from bench import contract

WORDS = st.one_of(st.sampled_from([0, 1, 2, 8, 8192, 2**31, 2**32 - 1]), st.integers(0, 2**32 - 1))
LONG_WORDS = st.one_of(st.sampled_from([0, 1, 8, 2**32, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))
NOISE = st.binary(max_size=3000)


def memory_with(content: bytes, size: int) -> mmap.mmap:
    memory = mmap.mmap(-1, size)
    memory[: len(content)] = content
    return memory


@given(noise=NOISE, size=st.integers(3000, 70000), workers=st.integers(0, 66))
@settings(max_examples=200, deadline=None)
def test_noise_is_no_segment(noise: bytes, size: int, workers: int) -> None:
    """Every check says what is wrong, for every size."""
    memory = memory_with(noise, size)
    assert contract.check_control(memory)
    assert workers == 0 or contract.check_rings(memory, workers)
    assert contract.check_arena(memory)


@given(head=LONG_WORDS, tail=LONG_WORDS, capacity=st.sampled_from([2, 8, 64]) | LONG_WORDS, noise=NOISE)
@settings(max_examples=200, deadline=None)
def test_a_damaged_ring_is_refused_or_survived(head: int, tail: int, capacity: int, noise: bytes) -> None:
    """At most a ring's capacity of records comes out, and where none comes out the reader may sleep."""
    content = struct.pack("<Q56xQ56xQ56x", head, tail, capacity) + noise
    memory = memory_with(content, contract.ring_bytes(64))
    try:
        consumer = contract.Consumer(memory)
        producer = contract.Producer(memory)
    except ValueError:
        return
    read = 0
    while consumer.pop() is not None:
        read += 1
        assert read <= 64
    assert not consumer.pending()
    consumer.give_back()
    producer.push(bytes(64))
    producer.publish()


@given(
    small=WORDS,
    large=WORDS,
    links=st.lists(st.tuples(st.integers(0, 40), WORDS, LONG_WORDS, WORDS), max_size=12),
    noise=NOISE,
    heads=st.lists(WORDS, min_size=1, max_size=5),
)
@settings(max_examples=300, deadline=None)
def test_a_damaged_arena_is_refused_or_survived(
    small: int, large: int, links: list[tuple[int, int, int, int]], noise: bytes, heads: list[int]
) -> None:
    """Reading, marking and freeing any block ends; a new owner never has more free blocks than there are."""
    counts = (small % 40, large % 3) if small % 4 else (small, large)
    memory = memory_with(b"", contract.arena_bytes(40, 3))
    memory[:16] = struct.pack("<QII", 0x726F7574657264, *counts)
    memory[4096 : 4096 + len(noise)] = noise
    for block, following, length, key in links:
        struct.pack_into("<I12xQII", memory, 8192 + 512 * block, following, length, 1, key)
    try:
        arena = contract.ArenaOwner(memory)
    except ValueError:
        return
    for head in heads:
        with contextlib.suppress(ValueError):  # no such block, or a broken chain
            assert len(arena.read(head)) <= len(memory)
        contract.mark_chain(arena, head)
        arena.free_chain(head)
    assert all(free <= count for free, count in zip(arena.free, arena.blocks, strict=True))
    assert len(arena.marked()) <= sum(arena.blocks)


@given(noise=st.binary(min_size=64, max_size=64))
def test_any_record_has_fields(noise: bytes) -> None:
    """Records read from a ring can be shown whatever they hold."""
    assert contract.pack(**contract.unpack(noise)) == noise


@given(noise=st.binary(max_size=8192))
@settings(max_examples=50, deadline=None)
def test_any_statistics_page_can_be_read(noise: bytes) -> None:
    """Numbers come out as they stand there; without its mark it is no page."""
    memory = memory_with(noise, 8192)
    memory[:4] = struct.pack("<I", 0x73746174)
    page = contract.StatsPage(memory, 0)
    assert page.get(127) == struct.unpack_from("<Q", memory, 64 + 127 * 8)[0]
    assert len(page.histogram(3)[1]) == len(contract.BUCKET_FLOORS)
