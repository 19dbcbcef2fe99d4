"""The types of bench.contract; contract.pyx and the C11 headers document the names."""

from typing import Final

from typing_extensions import Buffer, disjoint_base

from shm.native import *  # noqa: F403  the compiled module has all of it, too
from shm.native import Arena, Mapped

NIL: Final[int]
RECORD_SIZE: Final[int]
A_NONE: Final[int]
A_DELIVER: Final[int]
A_CONTINUE: Final[int]
A_DRAIN: Final[int]
A_DRAINED: Final[int]
A_FREE: Final[int]
A_WAITS: Final[int]
A_CONTROL: Final[int]
W_NONE: Final[int]
W_CONSUMED: Final[int]
W_FLOW: Final[int]
W_DRAIN: Final[int]
W_DRAINED: Final[int]
W_ACCEPTED: Final[int]
W_CONTROL: Final[int]
F_IN: Final[int]
F_RELEASE: Final[int]
F_STALLED: Final[int]
F_UNSENT: Final[int]
F_BRIEF: Final[int]
F_EXTRACT: Final[int]
D_FAILED: Final[int]
D_TOLD: Final[int]
D_PAYLOAD: Final[int]
S_NONE: Final[int]
S_RECEIVED: Final[int]
S_MODIFIED: Final[int]
S_DECLARED: Final[int]
S_TRANSACTIONAL: Final[int]
C_CONNECTION_OPENED: Final[int]
C_CONNECTION_CLOSED: Final[int]
C_ATTACH: Final[int]
C_ATTACHED: Final[int]
C_DETACH: Final[int]
C_CLOSE: Final[int]
C_OPEN_LINK: Final[int]
C_LINK_REFUSED: Final[int]
C_POLL: Final[int]
C_SEEN: Final[int]
C_DENIED: Final[int]
C_TRACE: Final[int]
C_CONNECTOR: Final[int]
C_SERVED: Final[int]
C_COST: Final[int]
C_ENDPOINT: Final[int]
C_ROUTE_REACH: Final[int]
C_ROUTE_COUNTS: Final[int]
C_PRESENTED: Final[int]
CONTENT_RECEIVING: Final[int]
CONTENT_COMPLETE: Final[int]
CONTENT_ABORTED: Final[int]

def pack(
    *,
    type: int = 0,
    flags: int = 0,
    priority: int = 0,
    arena: int = 0,
    link: int = 0,
    link_gen: int = 0,
    block: int = ...,
    delivery: int = 0,
    peer: int = 0,
    state: int = 0,
    credit: int = 0,
    length: int = 0,
    time: int = 0,
    extra: int = 0,
) -> bytes: ...
def unpack(record: bytes) -> dict[str, int]: ...
def core_doorbell_offset() -> int: ...
def worker_doorbell_offset(worker: int) -> int: ...

class Doorbell(Mapped):
    def __new__(cls, memory: Buffer, offset: int) -> Doorbell: ...
    def sleep(self) -> None: ...
    def should_ring(self) -> bool: ...

def observe(page: Mapped, which: int, value: int) -> None: ...
def mark_chain(arena: Arena, head: int) -> int: ...
def ring_bytes(capacity: int) -> int: ...
def format_ring(memory: Buffer, capacity: int, offset: int = 0) -> None: ...
def arena_bytes(small_count: int, large_count: int) -> int: ...
def format_arena(memory: Buffer, small_count: int, large_count: int) -> None: ...

@disjoint_base
class Producer(Mapped):
    def __new__(cls, memory: Buffer, offset: int = 0) -> Producer: ...
    def push(self, record: bytes) -> bool: ...
    def publish(self) -> bool: ...
    def discard(self) -> None: ...

@disjoint_base
class Consumer(Mapped):
    def __new__(cls, memory: Buffer, offset: int = 0) -> Consumer: ...
    def pop(self) -> bytes | None: ...
    def give_back(self) -> None: ...
    def pending(self) -> bool: ...

@disjoint_base
class ArenaOwner(Arena):
    def __new__(cls, memory: Buffer) -> ArenaOwner: ...
    @property
    def free(self) -> tuple[int, int]: ...
    def free_chain(self, head: int) -> int: ...
    def begin(self, large: bool = False) -> ChainWriter | None: ...
    def write(self, content: bytes, large: bool = False) -> int | None: ...

@disjoint_base
class ChainWriter:
    def __init__(self, *args: object, **kwargs: object) -> None: ...
    @property
    def head(self) -> int: ...
    @property
    def written(self) -> int: ...
    def write(self, content: bytes) -> bool: ...
    def publish(self, state: int = ...) -> None: ...
    def trim(self, consumed: int) -> int: ...
