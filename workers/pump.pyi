"""Types of workers.pump; what the names mean stands in pump.pyx."""

from shm.segment import Segments
from workers.handler import AmqpError, Handler

class Pump:
    def __init__(
        self,
        segments: Segments,
        handler: Handler,
        index: int,
        workers: int,
        doorbell_fd: int,
        wake_fd: int,
        busy_poll_us: int,
    ) -> None: ...
    @property
    def connections(self) -> int: ...
    @property
    def unsettled(self) -> int: ...
    def add_listener(
        self,
        fd: int,
        config: int,
        max_frame: int,
        channel_max: int,
        idle_timeout_ms: int,
        handshake_ms: int,
        link_capacity: int,
        window_frames: int,
        authenticate: bool,
        mechanisms: str,
    ) -> None: ...
    def accept(self, accepting: bool) -> None: ...
    def withhold_credit(self) -> None: ...
    def run(self, seconds: float) -> None: ...
    def connection_info(self, index: int) -> tuple[str, str, str, str, dict[str, str], int, int]: ...
    def connection_open(
        self, index: int, container: str, capabilities: list[str], properties: dict[str, str | int]
    ) -> None: ...
    def connection_close(self, index: int, generation: int, error: AmqpError | None = None) -> None: ...
    def connection_generations(self) -> list[tuple[int, int]]: ...
    def link_open(self, index: int, generation: int, address: str | None) -> bool: ...
    def link_refuse(self, index: int, generation: int, name: str, description: str) -> None: ...
    def link_close(self, index: int, generation: int, error: AmqpError | None = None) -> None: ...
    def post(
        self,
        kind: int,
        payload: bytes,
        link: int = ...,
        link_generation: int = 0,
        connection: int = 0,
        connection_generation: int = 0,
    ) -> None: ...
