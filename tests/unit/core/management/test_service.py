"""The core's side of management."""

import pytest

from core.links.local import MESSAGE_LIMIT
from core.management.request import BAD_REQUEST, ManagementError
from core.management.service import Service


def test_a_request_that_is_too_long_to_be_passed_on_is_refused() -> None:
    """At once, and not as one for an agent that nobody knows."""
    service = Service.__new__(Service)
    with pytest.raises(ManagementError, match=f"has {MESSAGE_LIMIT + 1} bytes when it is passed on") as refused:
        service._passed_on("amqp:/_topo/0/other/$management", b"x" * (MESSAGE_LIMIT + 1))
    assert refused.value.status == BAD_REQUEST
