from collections.abc import Callable, Iterable

from typing_extensions import disjoint_base

from shm.contract.source_routes import REASONS as REASONS

_Path = tuple[tuple[int, bytes], ...]
_Left = tuple[bytes, _Path, _Path, str, tuple[_Path, _Path] | None]

STATES: tuple[str, ...]

class StepRefusedError(Exception):
    reason: str
    condition: str
    detail: str
    def __init__(self, reason: str, condition: str, detail: str) -> None: ...

@disjoint_base
class Steps:
    def __new__(cls, table: bytes, scopes: Callable[[int, bytes], bytes | None]) -> Steps: ...
    def sent(self, onward: _Path, returning: _Path) -> _Left: ...
    def step(self, message: bytes, sender: int, numbers: Iterable[int], foreign: bool) -> list[_Left] | None: ...
