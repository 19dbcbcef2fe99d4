"""What tests of the management agent share."""

import os
from collections.abc import Iterator

import pytest

from shm.memory import segment
from tests.support.beds.agent import Bed


@pytest.fixture
def segments() -> Iterator[segment.Segments]:
    made = segment.create(segment.segment_prefix("test-management", os.getpid()), 1, 4)
    try:
        yield made
    finally:
        made.unlink()  # what refers to the mappings goes with the test, and they with it


@pytest.fixture
def bed(segments: segment.Segments) -> Bed:
    return Bed(segments)
