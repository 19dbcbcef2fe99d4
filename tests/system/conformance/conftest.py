"""Clients that say each frame themselves, and others that must not notice."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.beds.bystander import Bystander
from tests.support.beds.conformance import NARROW, Connect
from tests.support.clients.frame_client import FrameClient
from tests.support.running import Configuration, RunningRouter, address_of


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """A usual listener, and one that is narrow in each way."""
    return Configuration(router="workers: 2", sections=f"listener {{\n host: 127.0.0.1\n port: 0\n {NARROW}\n}}")


@pytest.fixture(autouse=True)
def others(bystander: Bystander) -> Iterator[None]:
    """The connection of another client goes on, whatever a test says on its own."""
    yield
    bystander.goes_on()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An address of the test's own."""
    return f"conformance.{request.node.name}"


@pytest.fixture
def connect(router: RunningRouter) -> Iterator[Connect]:
    """Makes clients that are open, with as many sessions as they shall have (``sessions``) on the lowest channels."""
    with ExitStack() as open_ones:

        def connected(sessions: int = 1, narrow: bool = False, **limits: Any) -> FrameClient:
            address = address_of(router.urls[1]) if narrow else router.address
            client = open_ones.enter_context(FrameClient(address, **limits))
            for channel in range(sessions):
                client.begin(channel)
            return client

        yield connected
