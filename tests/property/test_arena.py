"""An arena behaves like a dictionary of byte strings, and no block is ever lost or in two places."""

import mmap

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from bench import contract

SMALL, LARGE = 12, 3
CONTENT_HEADER = 48  # of its octets those in the block's data
SMALL_REST, LARGE_REST = 416, 16288  # bytes in a block that is no head
SMALL_HEAD, LARGE_HEAD = SMALL_REST - CONTENT_HEADER, LARGE_REST - CONTENT_HEADER
SIZES = st.one_of(
    st.sampled_from([0, 1, SMALL_HEAD, SMALL_HEAD + 1, SMALL_REST, SMALL_HEAD + SMALL_REST, LARGE_HEAD]),
    st.integers(0, 3000),
    st.integers(0, 40000),
)


def text(number: int, size: int) -> bytes:
    """Content that differs between chains and between places."""
    return (b"%d:" % number + bytes(range(256))).ljust(263, b"!") * (size // 263 + 1)


class Stream:
    """A chain that is still being written, what stands in it, and who reads it."""

    def __init__(self, writer: contract.ChainWriter) -> None:
        self.writer = writer
        self.content = b""
        self.published = 0
        self.readers: list[contract.ChainReader] = []


class ArenaModel(RuleBasedStateMachine):
    """``complete`` maps heads to content."""

    chains = Bundle("chains")
    streams = Bundle("streams")

    @initialize()
    def format(self) -> None:
        self.memory = mmap.mmap(-1, contract.arena_bytes(SMALL, LARGE))
        contract.format_arena(self.memory, SMALL, LARGE)
        self.owner = contract.ArenaOwner(self.memory)
        self.view = contract.Arena(self.memory)
        self.number = 0
        self.complete: dict[int, bytes] = {}
        self.live: list[Stream] = []

    @rule(target=chains, size=SIZES, large=st.booleans())
    def write(self, size: int, large: bool) -> object:
        content = text(self.number, size)[:size]
        self.number += 1
        before = self.owner.free
        head = self.owner.write(content, large)
        if head is None:
            assert self.owner.free == before
            assert before == (0, 0) or size > self.capacity(before)
            return multiple()
        assert head not in self.complete
        self.complete[head] = content
        return head

    @staticmethod
    def capacity(free: tuple[int, int]) -> int:
        """The bytes of a chain of all these blocks."""
        return free[0] * SMALL_REST + free[1] * LARGE_REST - CONTENT_HEADER

    @rule(head=consumes(chains))
    def free(self, head: int) -> None:
        if self.complete.pop(head, None) is None:
            return  # its owner died
        assert self.owner.free_chain(head) > 0
        before = self.owner.free
        assert self.owner.free_chain(head) == 0, "a double free is refused"
        assert self.owner.free == before

    @rule(target=streams, large=st.booleans())
    def begin(self, large: bool) -> object:
        writer = self.owner.begin(large)
        if writer is None:
            assert self.owner.free == (0, 0)
            return multiple()
        stream = Stream(writer)
        stream.readers = [contract.ChainReader(self.view, writer.head) for _ in range(2)]
        self.live.append(stream)
        return stream

    @rule(stream=streams, size=SIZES)
    def grow(self, stream: Stream, size: int) -> None:
        if stream not in self.live:
            return
        piece = text(self.number, size)[:size]
        self.number += 1
        whole = stream.writer.write(piece)
        done = stream.writer.written - len(stream.content)
        assert whole is (done == size)
        assert whole or self.owner.free == (0, 0)
        stream.content += piece[:done]

    @rule(stream=streams)
    def publish(self, stream: Stream) -> None:
        if stream in self.live:
            stream.writer.publish()
            stream.published = len(stream.content)

    @rule(stream=streams, which=st.integers(0, 1))
    def read_on(self, stream: Stream, which: int) -> None:
        if stream in self.live:
            reader = stream.readers[which]
            position = reader.position
            assert reader.read() == stream.content[position : stream.published]

    @rule(stream=streams)
    def trim(self, stream: Stream) -> None:
        """Blocks behind the slowest reader come back; reading goes on as if nothing had happened."""
        if stream in self.live:
            before = sum(self.owner.free)
            freed = stream.writer.trim(min(reader.position for reader in stream.readers))
            assert sum(self.owner.free) == before + freed

    @rule(stream=consumes(streams), state=st.sampled_from([contract.CONTENT_COMPLETE, contract.CONTENT_ABORTED]))
    def finish(self, stream: Stream, state: int) -> None:
        if stream in self.live:
            stream.writer.publish(state)
            assert self.view.content(stream.writer.head) == (len(stream.content), state)
            for reader in stream.readers:
                position = reader.position
                assert reader.read() == stream.content[position:]
            assert self.owner.free_chain(stream.writer.head) > 0
            self.live.remove(stream)

    @rule()
    def owner_dies(self) -> None:
        """Complete chains are kept by marking them; what was being written is the new owner's to reuse."""
        self.view.mark_none()
        marked = sum(contract.mark_chain(self.view, head) for head in self.complete)
        assert len(self.view.marked()) == marked
        self.owner = contract.ArenaOwner(self.memory)
        self.live.clear()
        assert sum(self.owner.free) == SMALL + LARGE - marked

    @invariant()
    def chains_hold_their_content(self) -> None:
        if hasattr(self, "owner"):
            for head, content in self.complete.items():
                assert self.view.read(head) == content

    def teardown(self) -> None:
        """Nothing was lost on the way."""
        if not hasattr(self, "owner"):
            return
        for head in [*self.complete, *(stream.writer.head for stream in self.live)]:
            assert self.owner.free_chain(head) > 0
        assert self.owner.free == (SMALL, LARGE)


TestArena = ArenaModel.TestCase
TestArena.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)


def test_a_block_is_needed_until_a_byte_behind_it_was_read() -> None:
    """A reader that stands at the end of a block finds its way on through that block."""
    memory = mmap.mmap(-1, contract.arena_bytes(SMALL, 0))
    contract.format_arena(memory, SMALL, 0)
    owner = contract.ArenaOwner(memory)
    stream = owner.begin()
    assert stream is not None
    reader = contract.ChainReader(contract.Arena(memory), stream.head)
    assert stream.write(text(1, 2000)[: SMALL_HEAD + SMALL_REST])
    stream.publish()
    assert len(reader.read()) == SMALL_HEAD + SMALL_REST
    assert stream.write(b"next block")
    assert stream.trim(reader.position) == 0
    stream.publish()
    assert reader.read() == b"next block"
    assert stream.trim(reader.position) == 1
    assert owner.free == (SMALL - 2, 0)
