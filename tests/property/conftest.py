"""Native code of the workers, compiled once for all property tests."""

import pytest

from tests.support.native.routed import Router, build


@pytest.fixture(scope="session")
def router(tmp_path_factory: pytest.TempPathFactory) -> Router:
    """The workers of source routes of one process; each test loads its own table."""
    return build(tmp_path_factory.mktemp("routed"))
