"""The entity type `allocator`: arenas and the core's tables, as qpid-dispatch shows memory pools."""

import msgspec

from core.forwarder.forward import Pools
from core.management.entity_type import Column, Table, constant, key_columns
from shm import native
from shm.contract.roles import Role, process_name
from shm.statistics import stats

SMALL_BYTES = 512  # ARENA_SMALL_BYTES and ARENA_LARGE_BYTES of shm/memory/arena.h
LARGE_BYTES = 16384
# The core's tables by the names that management tools know.
_TABLES = {
    "address": "qdr_address_t",
    "link": "qdr_link_t",
    "incoming": "qdr_delivery_t",
    "outgoing": "qdr_link_work_t",
}
_MESSAGES = "qd_message_t"  # as many as incoming deliveries, because content is stored once
_BUFFERS = "qd_buffer_t"  # all blocks together, counted as small ones


class Pool(msgspec.Struct, frozen=True):
    """A class of blocks in an arena, or a table: bytes per entry, number of entries, entries in use."""

    name: str
    size: int
    total: int
    used: int


def _zero(attribute: str, description: str) -> Column:
    return Column(attribute, "integer", description, constant(0))


class Allocators(Table):
    """One row for each class of blocks of each arena, and for each table of the core."""

    lenient = False
    NAME = "allocator"
    DESCRIPTION = "A pool: the blocks of one size in a process's arena, or a table of the core."
    COLUMNS = (
        *key_columns("allocator", "allocator/ and the name of the pool.", lambda r: f"allocator/{r.name}"),
        Column("typeName", "string", "Name of the pool.", lambda r: r.name),
        Column("typeSize", "integer", "Bytes of one entry.", lambda r: r.size),
        _zero("transferBatchSize", "Always 0, because entries never move between processes."),
        Column("localFreeListMax", "integer", "All entries of the pool.", lambda r: r.total),
        _zero("globalFreeListMax", "Always 0, because no pool belongs to several processes."),
        Column("totalAllocFromHeap", "integer", "All entries of the pool.", lambda r: r.total),
        _zero("totalFreeToHeap", "Always 0, because the router keeps its memory."),
        Column("heldByThreads", "integer", "Entries in use.", lambda r: r.used),
        _zero("batchesRebalancedToThreads", "Always 0, because entries never move between processes."),
        _zero("batchesRebalancedToGlobal", "Always 0, because entries never move between processes."),
    )

    def rows(self) -> list[Pool]:
        segments = self._view.segments
        pools: list[Pool] = []
        for i in range(segments.workers):
            numbers = stats.read(segments.worker_stats(i))
            free = (numbers["small_free"], numbers["large_free"])
            pools += _pools(process_name(Role.WORKER, i), native.Arena(segments.arenas[i]).blocks, free)
        counts = self._view.core.forwarder.counts()
        free = (counts["free_small"], counts["free_large"])
        pools += _pools(Role.CORE.value, native.Arena(segments.arenas[-1]).blocks, free)
        tables = {name: numbers for name, *numbers in Pools(self._view.core.forwarder).rows()}
        whole = [sum(getattr(one, what) * one.size for one in pools) for what in ("total", "used")]
        pools.append(Pool(_BUFFERS, SMALL_BYTES, *(octets // SMALL_BYTES for octets in whole)))
        pools.append(Pool(_MESSAGES, *tables["incoming"]))
        return pools + [Pool(_TABLES[name], *numbers) for name, numbers in tables.items()]


def _pools(owner: str, total: tuple[int, int], free: tuple[int, int]) -> list[Pool]:
    sizes = (("small_block", SMALL_BYTES), ("large_block", LARGE_BYTES))
    return [Pool(f"{owner}_{name}", size, total[i], max(0, total[i] - free[i])) for i, (name, size) in enumerate(sizes)]
