"""What a daemon tells its starter."""

import io
import os
import sys

import pytest

from routerd.machine.daemon import Daemon


def test_a_pid_file_may_be_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no length to cut: the router ended as soon as it served."""
    monkeypatch.setattr(sys, "stderr", sys.stderr)  # serves puts another in its place
    told: list[str] = []

    class Starter(io.StringIO):
        def close(self) -> None:
            told.append(self.getvalue())

    with open(os.devnull, "w") as device:
        Daemon(Starter(), device).serves()
    assert told[:1] == ["\0"]
