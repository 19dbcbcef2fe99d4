"""DISPOSITIONs that make more work than a turn may have: they go on in later turns, in order and whole."""

import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from proton import Described, uint, ulong

from bench import contract as n
from shm.contract.payloads import Attach, Attached, Detach, Error
from shm.contract.security import TlsSetup
from tests.support.beds.door import Client, Door
from tests.support.certificates import Authority
from tests.support.clients.wire import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    DETACH,
    DISPOSITION,
    FLOW,
    NULL,
    OPEN,
    SOURCE,
    TARGET,
    TRANSFER,
    TRUE,
    begin,
    described,
    encode,
    frame,
    listed,
)

DELIVERIES = 1500
MOST = 256  # states of a connection on their way
ACCEPTED = b"\0\x53\x24\x45"
BODY = b"\0\x53\x75\xa0\x01x"


class Core(Door):
    """A door whose core keeps each UPDATE; it gives blocks of states back only when it is told to."""

    def __init__(self, name: str, tls: TlsSetup | None) -> None:
        self.updates: list[dict[str, int]] = []
        self.lent: list[int] = []
        self.most, self.keeps, self.over = 0, False, False
        self.link: dict[str, int] = {}
        super().__init__(name, tls)

    def _hear(self, action: dict[str, int]) -> None:
        super()._hear(action)
        self.over |= any(isinstance(one, Detach) for one in self.heard)
        if action["type"] != n.A_UPDATE:
            return
        self.updates.append(action)
        if action["extra"] & n.D_PAYLOAD:
            self.lent.append(action["block"])
            self.most = max(self.most, len(self.lent))
        if not self.keeps:
            self.give_back()

    def give_back(self) -> None:
        for block in self.lent:
            assert self.work.push(n.pack(type=n.W_RELEASE, block=block, link=n.NIL))
        self.lent.clear()
        self.work.publish()


@pytest.fixture(params=["plain", "tls"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """A receiver with credit for all deliveries, whose core is the test."""
    tls = context = None
    if request.param == "tls":
        issued = Authority(tmp_path).issue("server", "/CN=localhost")
        tls = TlsSetup("tls", str(issued.certificate), str(issued.key), required=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    core = Core(f"dispositions-{request.param}", tls)
    client = Client(core, core.dial(), context)
    if context:
        client.secure()
    ends = Described(ulong(SOURCE), ["a"]), Described(ulong(TARGET), ["a"])
    client.write(AMQP_HEADER + frame(0, described(OPEN, "peer")) + begin(0))
    client.write(frame(0, described(ATTACH, "link", uint(0), True, None, None, *ends)))
    client.take(8)
    client.frames(OPEN, BEGIN)
    (asked,) = core.hear(Attach)
    core.tell(n.C_ATTACHED, Attached(asked.link, asked.generation))
    client.frames(ATTACH)
    fields = map(uint, (0, 2**31 - 1, 0, 2**31 - 1, 0, 0, DELIVERIES))
    client.write(frame(0, described(FLOW, *fields)))
    core.link = {"link": asked.link, "link_gen": asked.generation}
    yield client
    client.socket.close()
    core.end()


def load(client: Client) -> None:
    """The core sends unsettled deliveries; its handle of each is its number and one."""
    core: Any = client.stand
    block = core.own.write(BODY)
    for first in range(0, DELIVERIES, 100):
        for number in range(first, first + 100):
            sent = {"flags": n.F_COMPLETE, "arena": 1, "block": block, "length": len(BODY), "peer": number + 1}
            assert core.work.push(n.pack(type=n.W_SEND, **core.link, **sent))
        core.work.publish()
        client.frames(*[TRANSFER] * 100)


def says(state: bytes, settled: bytes = NULL) -> bytes:
    """A DISPOSITION of all deliveries."""
    last = b"\x70" + struct.pack(">I", 2**31 - 2)
    return frame(0, listed(DISPOSITION, TRUE, b"\x43", last, settled, state))


def received(section: int) -> bytes:
    return listed(0x23, encode(uint(section)), b"\x44")


def test_states_are_said_in_portions(client: Client) -> None:
    """While the core gives none of their blocks back, nothing behind them is read; then each delivery's last one is."""
    core: Any = client.stand
    load(client)
    core.keeps = True
    octets = b"".join(says(received(i)) for i in range(5))
    octets += says(ACCEPTED, TRUE) + frame(0, described(DETACH, uint(0), True))
    client.write(*(octets[at : at + 50] for at in range(0, len(octets), 50)))  # in the middle of frames
    client.rest(0.2)
    assert len(core.lent) == MOST
    while not core.over:
        core.give_back()
        client.step()
    client.frames(DETACH)
    assert core.most == MOST
    settled = [one["delivery"] for one in core.updates if one["flags"] & n.F_SETTLED]
    assert sorted(settled) == list(range(1, DELIVERIES + 1))
    assert len(core.updates) == 6 * DELIVERIES


def test_a_state_is_said_once(client: Client) -> None:
    """Who repeats it says nothing."""
    core: Any = client.stand
    load(client)
    client.write(says(received(1)) * 20 + says(ACCEPTED) + says(ACCEPTED) * 20 + says(ACCEPTED, TRUE))
    core.until(lambda: len(core.updates) >= 3 * DELIVERIES, "three states of each")
    client.rest(0.05)
    assert len(core.updates) == 3 * DELIVERIES


def test_control_messages_wait_for_blocks(client: Client) -> None:
    """More of them than there are blocks: none is lost, all are heard in order, and the worker lives."""
    core: Any = client.stand
    links = range(1000, 4000)
    for link in links:
        core.registry.post(Detach(link, 1, Error("a:b", "why " * 40)))
    heard = [one.link for one in core.hear(Detach, len(links))]
    assert heard == list(links)
