"""What tests of the management agent share."""

import os
from collections.abc import Iterator

import pytest

from shm.memory import segment
from tests.support.beds.agent import Bed


@pytest.fixture
def bed() -> Iterator[Bed]:
    segments = segment.create(segment.segment_prefix("test-management", os.getpid()), 1, 4)
    try:
        yield Bed(segments)
    finally:
        segments.unlink()  # what refers to the mappings goes with the test, and they with it
