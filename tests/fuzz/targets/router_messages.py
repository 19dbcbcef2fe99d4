"""A router that lies harms no other: an honest neighbour, and what lies behind it, stay as they are.

An input is a series of messages, each behind its length in two octets.
"""

from core.addresses.addresses import Identity
from core.interior.advertisement import Advertisement
from core.interior.hello import greeting
from core.interior.linkstate import LinkStateUpdate
from core.interior.message import ALL_MOBILE
from core.interior.mobile import MobileUpdate
from core.interior.network import Network
from shm.contract.routing import NetworkSetup
from tests.support.beds.strict_port import Port

HONEST, LIAR = 1, 2
MOST = 20  # messages of an input
TRUE = [
    greeting("H", 5, ["A"]),
    LinkStateUpdate("H", 5, 1, {"A": 1, "far": 1}).encode("x"),
    MobileUpdate("H", 1, {"M0good": 3}).encode(ALL_MOBILE),
    Advertisement("H", 5, 1, 1).encode(),
]
LIE = greeting("L", 5, ["A"])


def one(octets: bytes) -> None:
    port, now, at = Port(), 1000.0, 0
    network = Network(Identity("A"), 7, NetworkSetup(), port)
    network.neighbour_up(HONEST, 1, "routerd")
    network.neighbour_up(LIAR, 10_000, "dispatch")
    for content in TRUE:
        network.received(HONEST, content, now)
    network.received(LIAR, LIE, now)
    network.tick(now)
    for _ in range(MOST):
        if at >= len(octets):
            break
        size = int.from_bytes(octets[at : at + 2], "big")
        network.received(LIAR, octets[at + 2 : at + 2 + size], now)
        network.tick(now)
        at += 2 + size
        now += 0.05
    bits = {name: bit for bit, name in port.routers.items()}
    assert port.paths[bits["H"]][:2] == (bits["H"], 1)
    assert port.paths[bits["far"]][:2] == (bits["H"], 2)
    assert port.addresses["M0good", bits["H"]] == 3
