"""The command line of qdrouterd: what it says of options that cannot be had."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from routerd import qdrouterd as tool


def _refused(*_: object) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def test_who_may_not_become_another_user_is_told_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And not of a pid file."""
    monkeypatch.setattr(tool, "detach", lambda file: None)
    monkeypatch.setattr(os, "initgroups", _refused)
    done = CliRunner().invoke(tool.qdrouterd, ["-d", "-U", "root", "-c", str(tmp_path)], standalone_mode=False)
    assert done.return_value == 1
    assert "-U root: Operation not permitted; start it as root, or without -U" in done.output


def test_options_of_the_background_are_named_in_the_foreground(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There nobody writes a pid file, and the router stays the user that it is."""
    ran: list[Any] = []

    def run(*given: object) -> int:
        ran.append(given)
        return 0

    monkeypatch.setattr(tool, "_run", run)
    arguments = ["-U", "nobody", "-P", str(tmp_path / "pid"), "-c", str(tmp_path)]
    done = CliRunner().invoke(tool.qdrouterd, arguments, standalone_mode=False)
    assert done.return_value == 0
    assert ran == [(tmp_path, None)]
    assert done.output == "qdrouterd: -P and -U without -d: no effect; add it, or leave these out\n"
