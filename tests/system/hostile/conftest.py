"""A router with a listener for each protocol, for attacks on any of them."""

from collections.abc import Iterator

import pytest

from tests.support.hostile.target import Target
from tests.support.running import RunningRouter


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """Where its listeners are."""
    return Target.made(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def attacked(target: Target) -> Iterator[RunningRouter]:
    """It holds nothing after all; its log may complain, within the bounds of the verdict."""
    router = RunningRouter(target.folder, target.configuration)
    try:
        yield router
        router.come_to_rest()
        router.end()
    finally:
        router.kill()
