"""What is known of the files of a log, so that who surveys it again and again looks at each file once."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

READERS: Final = 8  # files read at the same time

Given = TypeVar("Given")
Found = TypeVar("Found")
Stamp = tuple[int | None, int | None]  # size, and when a file was last changed, in ns since 1970


class Memory:
    """What functions found out about files. A file with another size or time is a new one.

    ``changed`` says whether the last listing differed from the one before it.
    """

    def __init__(self) -> None:
        self.changed = False
        self._stamps: Mapping[str, Stamp] = {}
        self._found: dict[tuple[Any, str], Any] = {}

    def keep(self, stamps: Mapping[str, Stamp]) -> None:
        """Forget files that are not in a listing, or have become others."""
        same = {path for path, stamp in stamps.items() if self._stamps.get(path) == stamp}
        self.changed = stamps != self._stamps
        self._stamps = stamps
        self._found = {key: one for key, one in self._found.items() if key[1] in same}

    def forget(self, paths: Iterable[str]) -> None:
        """Take these files for new ones in the next listing."""
        gone = set(paths)
        self._stamps = {path: stamp for path, stamp in self._stamps.items() if path not in gone}

    def each(self, function: Callable[[Any, Any], Any], files: Any, things: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a function says of things, by path; it is asked for each of them once."""
        fresh = {path: thing for path, thing in things.items() if (function, path) not in self._found}
        for path, one in zip(fresh, at_once(partial(function, files), fresh.values()), strict=True):
            self._found[function, path] = one
        return {path: self._found[function, path] for path in things}


def at_once(function: Callable[[Given], Found], things: Iterable[Given]) -> list[Found]:
    """Return what a function that mostly waits for files returns for each thing."""
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(function, things))
