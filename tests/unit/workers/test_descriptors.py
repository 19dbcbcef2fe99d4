"""A worker without file descriptors: the log says when it accepts nobody, and when that is over."""

import logging
import os
import resource

import pytest

from tests.support.beds.door import Client, Door
from tests.support.clients.wire import AMQP_HEADER


def test_the_log_says_when_connections_are_accepted_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "SERVER")
    door = Door("descriptors", None)
    client = Client(door, door.dial())
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    for one in range(before[0]):  # a lower limit counts from the lowest descriptor that is free
        try:
            os.fstat(one)
        except OSError:
            break
    resource.setrlimit(resource.RLIMIT_NOFILE, (one, before[1]))
    try:
        door.until(lambda: "cannot accept connections" in caplog.text, "complaint")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert "accepted again" not in caplog.text
    door.until(lambda: "connections are accepted again: there are" in caplog.text, "its end")
    client.write(AMQP_HEADER)
    assert client.take(8) == AMQP_HEADER
    client.socket.close()
    door.end()
