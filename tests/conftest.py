"""What holds for every test."""

from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no counterexample.
settings.register_profile("routerd", deadline=None)
settings.load_profile("routerd")

PIPELINE = Path(__file__).parent / "pipeline"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests run in several processes, a file's stay in one, and all that use Spark, too."""
    for item in items:
        group = "pipeline" if PIPELINE in item.path.parents else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
