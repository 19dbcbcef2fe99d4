"""A peer that lies harms nobody: others keep their ways and addresses, and the log stays short.

Messages of a real exchange are mutated in their fields and given to a router that has an honest neighbour, too. The
fuzzing target `router_messages` changes their octets.
"""

import logging
import random
from typing import Any

import pytest

from core.addresses.addresses import Identity
from core.interior.advertisement import Advertisement
from core.interior.hello import greeting
from core.interior.linkstate import LinkStateRequest, LinkStateUpdate
from core.interior.message import ALL_MOBILE, decode, encode
from core.interior.mobile import MobileRequest, MobileUpdate
from core.interior.network import Network
from shm.contract.routing import NetworkSetup
from tests.support.beds.strict_port import Port

HONEST, LIAR = 1, 2
ROUNDS = 1500
SEEDS = [
    greeting("L", 5, ["A"]),
    Advertisement("L", 5, 3, 2).encode(),
    LinkStateRequest("L").encode("A"),
    LinkStateUpdate("L", 5, 3, {"A": 1, "far": 2}).encode("amqp:/_topo/0/A/qdrouter"),
    MobileUpdate("L", 1, {"M0x": 3, "M0y": 2}, ("M0z",)).encode(ALL_MOBILE),
    MobileUpdate("L", 2, {"M0x": 3}, absolute=True).encode("amqp:/_topo/0/A/qdrouter.ma"),
    MobileUpdate("L", 3, {"M0x": 3, "Hy": 2}, ("M0z",), version=2).encode(ALL_MOBILE),
    MobileRequest("L", 0).encode("A"),
    MobileRequest("L", 0).encode("H"),
]
ODD: list[Any] = [None, True, -1, 0, 1, 2**31, 2**63 - 1, "", "A", "x" * 200, "a/b", [], {}, ["A"], {"A": 1}, {"A": -1}]
ODD += ["ß" * 127, {"ß" * 127: 1}]  # more octets than characters


def other_fields(chance: random.Random, content: bytes) -> bytes:
    """A field that is missing, of another type, or beyond what can be."""
    control = decode(content)
    body = dict(control.body)
    for _ in range(chance.randint(1, 2)):
        name = chance.choice(sorted(body))
        if chance.random() < 0.2:
            body.pop(name)
        elif isinstance(body[name], dict) and chance.random() < 0.6:
            inner = dict(body[name])
            inner[chance.choice([*sorted(inner), "new"])] = chance.choice(ODD)
            body[name] = inner
        else:
            body[name] = chance.choice(ODD)
        if not body:
            break
    return encode(control.to, control.opcode, body)


@pytest.mark.parametrize("seed", range(4))
def test_mutated_fields_harm_nobody(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """The honest neighbour and what lies behind it stay as they are, the log stays short."""
    chance = random.Random(seed)  # noqa: S311  repeatable, and keeps no secret
    port = Port()
    network = Network(Identity("A"), 7, NetworkSetup(), port)
    now = 1000.0
    network.neighbour_up(HONEST, 1, "routerd")
    network.neighbour_up(LIAR, 10_000, "dispatch")
    for step in range(ROUNDS):
        if step % 20 == 0:
            now += 1.0
            network.received(HONEST, greeting("H", 5, ["A"]), now)
            network.received(LIAR, greeting("L", 5, ["A"]), now)
        if step == 0:
            network.received(HONEST, LinkStateUpdate("H", 5, 1, {"A": 1, "far": 1}).encode("x"), now)
            network.received(HONEST, MobileUpdate("H", 1, {"M0good": 3}).encode(ALL_MOBILE), now)
        if step % 100 == 0:
            network.received(HONEST, Advertisement("H", 5, 1, 1).encode(), now)
        network.received(LIAR, other_fields(chance, chance.choice(SEEDS)), now)
        network.tick(now)
    bits = {name: bit for bit, name in port.routers.items()}
    assert port.paths[bits["H"]][:2] == (bits["H"], 1)
    assert port.paths[bits["far"]][:2] == (bits["H"], 2)
    assert port.addresses["M0good", bits["H"]] == 3
    assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) < 150
    assert len(port.routers) <= 127


def test_ten_thousand_peers_and_names(caplog: pytest.LogCaptureFixture) -> None:
    """A list that is too long is refused; names that come one by one stop at the bits there are."""
    port = Port()
    network = Network(Identity("A"), 7, NetworkSetup(), port)
    network.neighbour_up(LIAR, 1, "dispatch")
    network.received(LIAR, greeting("L", 5, ["A"]), 1000.0)
    many = {f"R{number}": 1 for number in range(10_000)}
    network.received(LIAR, LinkStateUpdate("L", 5, 9, many).encode("x"), 1000.0)
    assert set(port.routers.values()) == {"L"}
    for name in many:
        network.received(LIAR, Advertisement(name, 5, 2**62, 2**62).encode(), 1000.0)
        network.received(LIAR, MobileRequest(name, 0).encode("A"), 1000.0)
        network.received(LIAR, MobileRequest(name, 0).encode("L"), 1000.0)
    network.tick(1000.0)
    assert len(port.routers) == 127
    assert port.sent < 1000
    assert len(caplog.records) < 200
