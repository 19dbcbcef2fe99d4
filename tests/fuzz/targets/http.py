"""Whatever a client says to the HTTP server: it gets one answer, or none, and its connection is gone."""

from routerd.exporter.server import Answer, Request
from tests.support.beds.http import Bed

PATIENCE_S = 20.0


def site(request: Request) -> Answer:
    return Answer(repr(request).encode())


BED = Bed(site)


def one(octets: bytes) -> None:
    client = BED.client(octets)
    BED.turn(4, PATIENCE_S)  # a head that does not end has its time
    BED.turn(2, PATIENCE_S)
    BED.turn(2)
    assert len(BED.server) == 0
    client.close()
    BED.clients.clear()
