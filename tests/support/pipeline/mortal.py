"""File systems whose process is killed at a chosen step."""

from collections.abc import Callable
from typing import Any

from pyarrow import fs


class Killed(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


class Mortal:
    """A process that is killed instead of changing anything for the n-th time."""

    left = 1 << 30

    @staticmethod
    def step(function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that changes something; the dead change nothing."""

        def mortal(*args: Any, **more: Any) -> Any:
            Mortal.left -= 1
            if Mortal.left < 0:
                raise Killed
            return function(*args, **more)

        return mortal


CHANGES = ("create_dir", "delete_dir", "delete_file", "move", "open_output_stream")


def _mortal(kind: type[fs.FileSystem]) -> type[fs.FileSystem]:
    return type(kind.__name__, (kind,), {name: Mortal.step(getattr(kind, name)) for name in CHANGES})


LOCAL = _mortal(fs.LocalFileSystem)
REMOTE = _mortal(fs.SubTreeFileSystem)


def disk(local: bool) -> fs.FileSystem:
    """Return a file system that is local, or one that has no links, as object stores have none."""
    return LOCAL() if local else REMOTE("/", fs.LocalFileSystem())
