"""Routers and hand-driven clients for the system tests."""

from collections.abc import Iterator

import pytest

from tests.support.beds.bystander import Bystander
from tests.support.peer import Net
from tests.support.running import Configuration, RunningRouter


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """What the module's router is configured with; modules that need more override it."""
    return Configuration()


@pytest.fixture(scope="module")
def router(configuration: Configuration, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRouter]:
    """One router for all tests of a module, which must come to rest and end cleanly after them."""
    router = RunningRouter(tmp_path_factory.mktemp("router"), configuration)
    yield router
    router.stop()


@pytest.fixture
def net(router: RunningRouter) -> Iterator[Net]:
    """Hand-driven clients of the module's router, closed at the end of the test."""
    with Net(router.address) as net:
        yield net


@pytest.fixture
def bystander(net: Net, request: pytest.FixtureRequest) -> Bystander:
    """Served before, while and after somebody misbehaves."""
    return Bystander(net, f"bystander.{request.node.name}").goes_on()
