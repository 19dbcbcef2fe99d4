"""A child process whose start ends half-way."""

import errno
import os
import subprocess
import sys
from typing import Any

import pytest

from routerd.supervise import child as child_module
from routerd.supervise.child import Child


def test_a_process_that_cannot_be_watched_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a descriptor for it the supervisor would not see its end: it is none of the router's."""
    begun: list[Any] = []

    def start(argv: list[str], fds: object) -> Any:
        begun.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
        return begun[-1]

    def none_left(pid: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(child_module, "_start", start)
    monkeypatch.setattr(os, "pidfd_open", none_left)
    before = len(os.listdir("/proc/self/fd"))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            Child(["nothing"], None, [], 0.0)
        assert begun[0].returncode is not None
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        begun[0].kill()
        begun[0].wait()
