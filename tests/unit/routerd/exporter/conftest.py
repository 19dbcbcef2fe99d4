"""What tests of the exporter share."""

from collections.abc import Iterator

import pytest

from tests.support.beds.http import Bed


@pytest.fixture
def bed() -> Iterator[Bed]:
    bed = Bed()
    yield bed
    bed.server.close()
    for client in bed.clients:
        client.close()
