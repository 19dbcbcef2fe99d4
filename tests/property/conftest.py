"""Native code of the workers, compiled once for all property tests."""

import ctypes
from pathlib import Path

import pytest

from tests.support.native.library import library
from tests.support.native.routed import Router, build


@pytest.fixture(scope="session")
def router(tmp_path_factory: pytest.TempPathFactory) -> Router:
    """The workers of source routes of one process; each test loads its own table."""
    return build(tmp_path_factory.mktemp("routed"))


@pytest.fixture(scope="session")
def lane(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """lane.c, with what it returns."""
    found = library(Path(__file__).with_name("lane.c"), tmp_path_factory.mktemp("lane"))
    found.opened.restype = ctypes.c_void_p
    found.rewritten.restype = found.shortened.restype = found.headed.restype = ctypes.c_size_t
    return found
