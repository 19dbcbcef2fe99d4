"""Files that are pipes: whoever opens one waits until somebody writes to it."""

import os
from pathlib import Path

import pytest

from routerd.config import ConfigError, load, parse


def told(text: str) -> list[str]:
    with pytest.raises(ConfigError) as error:
        parse(text, "f.conf")
    return str(error.value).splitlines()


def test_a_pipe_is_read_where_a_router_starts_and_refused_where_one_runs(tmp_path: Path) -> None:
    """`<(command)` of a shell is a pipe. The supervisor of a running router would wait for a writer for ever."""
    reader, writer = os.pipe()
    os.write(writer, b"router {\n id: A\n}\n")
    os.close(writer)
    assert load(f"/dev/fd/{reader}").router.id == "A"
    os.close(reader)
    os.mkfifo(tmp_path / "pipe.conf")
    with pytest.raises(ConfigError, match=r"pipe\.conf: cannot be read \(it is no regular file"):
        load(tmp_path / "pipe.conf", regular=True)


def test_a_pipe_among_the_files_of_policy_dir_is_a_mistake(tmp_path: Path) -> None:
    """It was read until a writer came."""
    os.mkfifo(tmp_path / "pipe.json")
    (mistake,) = told(f"listener {{\n port: 0\n}}\npolicy {{\n policyDir: {tmp_path}\n}}\n")
    assert "it is no regular file" in mistake


def test_a_pipe_is_no_seed(tmp_path: Path) -> None:
    """The core would hang at it."""
    os.mkfifo(tmp_path / "pipe")
    (mistake,) = told(f"listener {{\n port: 0\n}}\nrouteTable {{\n name: t\n seed: {tmp_path}/pipe\n}}\n")
    assert "is no regular file; give a file with a route table" in mistake
