from collections.abc import Callable, Iterable

_Way = tuple[tuple[int, bytes], ...]
_Left = tuple[bytes, _Way, _Way, str, tuple[_Way, _Way] | None]

STATES: tuple[str, ...]

class StepRefusedError(Exception):
    reason: str
    condition: str
    detail: str
    def __init__(self, reason: str, condition: str, detail: str) -> None: ...

class Steps:
    def __init__(self, table: bytes, scopes: Callable[[int, bytes], bytes | None]) -> None: ...
    def sent(self, onward: _Way, returning: _Way) -> _Left: ...
    def step(
        self, message: bytes, sender: int, numbers: Iterable[int], foreign: bool
    ) -> list[_Left] | None: ...
