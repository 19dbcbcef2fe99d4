"""A worker that is short of blocks."""

import socket
from collections.abc import Iterator

import pytest

from bench import contract as n
from shm.memory import segment
from shm.statistics import stats
from tests.support.beds.door import Client, Door
from tests.support.clients.wire import AMQP_HEADER


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """Of a worker most of whose blocks are in use."""
    create = segment.create

    def create_used(*given: int) -> segment.Segments:
        segments = create(*given)
        owner = n.ArenaOwner(segments.arenas[0])
        writer = owner.begin(True)
        while owner.free[1] > 1:
            assert writer.write(bytes(1024))
        writer.publish(n.CONTENT_COMPLETE)
        n.mark_chain(owner, writer.head)
        return segments

    with monkeypatch.context() as patch:
        patch.setattr(segment, "create", create_used)
        door = Door("pressure", None)
    yield door
    door.end()


def test_a_listener_that_is_added_while_blocks_are_few_accepts_connections(door: Door) -> None:
    """It accepts as the others do, which pass no message on meanwhile."""
    assert stats.read(door.segments.worker_stats(0))["paused"]
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    terms = 0, 16384, 100, 60_000, 60_000, 50, 64, 64, False, "ANONYMOUS"
    door.pump.add_listener(listening.fileno(), *terms)
    for place in (door.listening, listening):
        client = Client(door, socket.create_connection(place.getsockname()))
        client.write(AMQP_HEADER)
        assert client.take(8) == AMQP_HEADER
        client.socket.close()
    door.pump.accept(False)
    listening.close()
