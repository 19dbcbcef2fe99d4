"""Places of a real pump that one protocol leaves and another one takes: RMR's and Ockam's terms differ in size."""

import os
import socket
from collections.abc import Iterator

import msgspec
import pytest

from shm.contract.control import ListenerSetup, SetTables, Setup
from shm.contract.ockam import OckamSetup
from shm.contract.source_routes import Stop
from shm.contract.tables import TableSetup
from tests.support.beds.stand import Stand
from workers.control.listeners import terms
from workers.control.message_log import MessageLog
from workers.control.trace import Tracing
from workers.rmr.connections import Rmr

TABLE = TableSetup("t", "rt")
OCKAM = OckamSetup(Stop(0, b"cloud", "0#cloud"), most=65536)
GREETING = b"\x01"  # of Ockam's TCP transport; RMR has none


class Places(Stand):
    """A pump that RMR is served by, too."""

    def __init__(self, name: str) -> None:
        from workers.loop.pump import RmrTransport, Security, Trace  # noqa: PLC0415 - the engine must be loaded first

        super().__init__(name)
        tracing = Tracing(Trace(self.pump), MessageLog(Trace(self.pump), self.registry.number))
        setup = Setup("worker", 0, 1, "/none", "me", "0", 1, [-1], secret=b"secret", tables=[TABLE])
        self.rmr = Rmr(RmrTransport(self.pump), Security(self.pump), self.registry, tracing, setup)

    def listen(self, number: int) -> int:
        """Have an RMR listener; return its place."""
        one = ListenerSetup(f"l{number}", [_listening()], number, table="t", advertised="router:4560")
        self.registry.listeners[number] = one
        place = self.pump.add_listener(one.fds[0], *terms(one))
        self.rmr.listen(place, one)
        return place

    def change_tables(self) -> None:
        self.rmr.configure(SetTables([msgspec.structs.replace(TABLE, max_frame_size=5000)]))

    def end(self) -> None:
        del self.rmr
        super().end()


def _listening() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.setblocking(False)
        return os.dup(sock.fileno())


@pytest.fixture
def places(request: pytest.FixtureRequest) -> Iterator[Places]:
    stand = Places(request.node.name[:40])
    yield stand
    stand.end()


def test_an_ockam_connector_in_the_place_of_an_rmr_listener(places: Places) -> None:
    """A change of the tables is none of its business: it still speaks Ockam."""
    places.pump.remove_listener(places.listen(1))
    with socket.create_server(("127.0.0.1", 0)) as peer:
        places.connect(peer.getsockname()[1], ockam=OCKAM)
        places.change_tables()
        places.turn(0.0)
        end = peer.accept()[0]
        with end:
            end.setblocking(False)
            places.until(lambda: places.pump.connections == 1, "its connection")
            for _ in range(10):
                places.turn(0.01)
            assert end.recv(9) == GREETING


def test_a_place_of_endpoints_that_is_given_back(places: Places) -> None:
    """The next one takes it."""
    from workers.loop.pump import RmrTransport  # noqa: PLC0415 - the engine must be loaded first

    transport = RmrTransport(places.pump)
    first = transport.add_place(250)
    assert transport.add_place(250) != first
    transport.remove_place(first)
    assert transport.add_place(250) == first


def test_terms_of_another_protocol_are_refused(places: Places) -> None:
    """Open connections of the place read its terms as those of their protocol."""
    from workers.loop.pump import OckamTransport  # noqa: PLC0415 - the engine must be loaded first

    with pytest.raises(ValueError, match="another protocol"):
        OckamTransport(places.pump).speak(places.listen(1), False, 65536, [])
