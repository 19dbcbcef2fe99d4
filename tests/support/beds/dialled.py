"""A broker that a worker's connector has connected to (tests/support/beds/stand.py)."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from proton import symbol, ubyte

from tests.support.beds.door import Client
from tests.support.beds.stand import Stand
from tests.support.clients.sasl_frames import INIT, MECHANISMS, OUTCOME, SASL_HEADER, sasl
from tests.support.clients.wire import AMQP_HEADER, OPEN, described, frame


@contextmanager
def dialled(name: str, *terms: object, arena: int = 1) -> Iterator[Client]:
    """Yield the broker's end of an open connection. ``terms`` are the fields of its OPEN behind the container."""
    stand = Stand(name, arena)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        stand.connect(listening.getsockname()[1])
        stand.turn(0.0)
        broker = Client(stand, listening.accept()[0], serves=True)
    broker.write(SASL_HEADER + sasl(MECHANISMS, symbol("ANONYMOUS")) + sasl(OUTCOME, ubyte(0)))
    broker.write(AMQP_HEADER + frame(0, described(OPEN, "broker", *terms)))
    broker.take(8)
    broker.frames(INIT)
    broker.take(8)
    broker.frames(OPEN)
    yield broker
    broker.socket.close()
    stand.end()
