"""Stand-ins that the unit tests have, too, and the modules beside the tests become importable."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
sys.path.insert(0, str(Path(__file__).parent))

from routed import Router, build


@pytest.fixture(scope="session")
def router(tmp_path_factory: pytest.TempPathFactory) -> Router:
    """The workers of source routes of one process; each test loads its own table."""
    return build(tmp_path_factory.mktemp("routed"))
