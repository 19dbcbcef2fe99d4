from typing import Final

from typing_extensions import disjoint_base

MODES: Final[dict[str, int]]
ADDRESS_MAX: Final[int]

@disjoint_base
class Load:
    def __new__(
        cls,
        mode: str,
        host: str,
        port: int,
        address: str,
        *,
        count: int,
        size: int,
        presettled: bool = False,
        credit: int = 1000,
        links: int = 1,
        pause_us: int = 0,
        listen: bool = False,
        far: int = 0,
        tls: bool = False,
    ) -> Load: ...
    def open(self) -> None: ...
    def hold(self) -> None: ...
    def run(self) -> None: ...
    def close(self) -> None: ...
    @property
    def messages(self) -> int: ...
    @property
    def bad(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def cpu_seconds(self) -> float: ...
    @property
    def latencies(self) -> bytes: ...
