"""A router's segments in anonymous memory, small enough to be made a thousand times."""

import mmap
import struct

from bench import contract

CONTENT = 96  # bytes of a block before what all messages have of the content header
LENGTH, TO_OFFSET, TO_LENGTH = 0, 16, 20  # in that part (content.h)


class Memory:
    """What the core uses of ``shm.memory.segment.Segments``, with rings of ``capacity`` records."""

    def __init__(
        self, workers: int, capacity: int = 64, arena_bytes: int = 256 * 1024, core_arena_bytes: int = 0
    ) -> None:
        self.workers = workers
        self.control = mmap.mmap(-1, contract.control_bytes(workers))
        contract.format_control(self.control, workers, arena_bytes)
        self.capacity = capacity
        self.rings = mmap.mmap(-1, contract.rings_bytes(workers))
        self.flight: mmap.mmap | None = None
        self.flow = mmap.mmap(-1, contract.TELEMETRY_BYTES)
        contract.format_telemetry(self.flow, 1)
        sizes = [arena_bytes] * workers + [core_arena_bytes or arena_bytes]
        self.arenas = [mmap.mmap(-1, size) for size in sizes]
        self.reset()

    def reset(self) -> None:
        """Empty rings and free blocks, as a new core finds them."""
        for w in range(self.workers):
            contract.format_ring(self.rings, self.capacity, contract.action_ring_offset(w))
            contract.format_ring(self.rings, self.capacity, contract.work_ring_offset(w))
        for arena in self.arenas:
            contract.format_arena_segment(arena)
            contract.Arena(arena).mark_none()

    def block_place(self, arena: int, block: int) -> tuple[int, int]:
        """Offset and size of a block in its segment (arena.h: header, map, small blocks, large blocks)."""
        small, large = struct.unpack_from("=II", self.arenas[arena], 8)
        first = 4096 + (small + large + 4095) // 4096 * 4096 + 48
        if block < small:
            return first + block * 512, 512
        return first + small * 512 + (block - small) * 16384, 16384

    def block_bytes(self, arena: int, block: int) -> bytes:
        at, size = self.block_place(arena, block)
        return bytes(self.arenas[arena][at : at + size])

    def say_where_to(self, arena: int, block: int, offset: int, length: int) -> None:
        """Fill in where `to` stands in a message."""
        at, _ = self.block_place(arena, block)
        struct.pack_into("=II", self.arenas[arena], at + CONTENT + TO_OFFSET, offset, length)
