"""The broker that link routes lead to."""

import pytest

from tests.support.peer import Net
from tests.support.running import RunningRouter, address_of, until
from tests.support.servers.broker import Broker


@pytest.fixture
def broker(net: Net, router: RunningRouter) -> Broker:
    """Connected, when nobody's route leads to another test's any more."""
    until(lambda: router.core["connections_admitted"] == 0, "end of earlier connections")
    (broker := Broker(net, address_of(router.urls[1])).open()).round_trip()
    return broker
