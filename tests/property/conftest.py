"""Native code of the workers, compiled once for all property tests."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from tests.support.native.routed import Router, build

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def router(tmp_path_factory: pytest.TempPathFactory) -> Router:
    """The workers of source routes of one process; each test loads its own table."""
    return build(tmp_path_factory.mktemp("routed"))


@pytest.fixture(scope="session")
def lane(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """lane.c, with what it returns."""
    library = tmp_path_factory.mktemp("lane") / "lane.so"
    command = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-shared"]
    command += ["-fPIC", f"-I{ROOT}", str(Path(__file__).with_name("lane.c")), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = ctypes.CDLL(str(library))
    found.opened.restype = ctypes.c_void_p
    found.rewritten.restype = found.shortened.restype = found.headed.restype = ctypes.c_size_t
    return found
