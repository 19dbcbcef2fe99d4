"""Addresses of copies for other routers, which stand in the core's arena until those are settled."""

import logging

import pytest

from bench import contract as n
from bench.contract import C_ATTACHED
from core.forwarder.forward import CONTROL_LINK, DATA_LINK, Nodes
from core.forwarder.link_terms import LinkTerms
from core.process.stall import PERIOD_NS, Stalls
from tests.support.beds.forwarding import RECEIVER, SENDER, Bed

FAR, PLACE, DATA = 1, 0, 11  # the bit of the other router, the place of the connection to it, and its link
PAST = 8  # addresses beyond those whose texts find room


class Afar(Bed):
    """A router whose neighbour has receivers of any address, which do not settle."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = Nodes(self.forwarder)
        self.nodes.add_router(FAR, b"0/far")
        assert self.nodes.take_neighbour(0) == PLACE
        for link, kind in ((10, CONTROL_LINK), (DATA, DATA_LINK)):
            assert self.nodes.add_link(RECEIVER, link, 1, PLACE, kind, 0, LinkTerms(True, capacity=5000))
        self.nodes.set_neighbour(FAR, PLACE)
        self.nodes.set_path(FAR, FAR, 1, [])
        self.block = self.arena.write(b"hello")
        self.senders = 10

    @property
    def free(self) -> tuple[int, int]:
        """The small and the large blocks of the core that are free."""
        counts = self.forwarder.counts()
        return counts["free_small"], counts["free_large"]

    def send(self, text: bytes) -> list[dict[str, int]]:
        """A new sender sends to an address of this text; what the other router is sent."""
        self.senders += 1
        address = self.forwarder.add_address(0)
        self.forwarder.set_text(address, text)
        self.nodes.add_remote(address, FAR)
        assert self.forwarder.add_link(SENDER, self.senders, 1, LinkTerms(False, address, 10))
        fields = {"link": self.senders, "link_gen": 1, "peer": 1 << 32 | self.senders, "length": 5, "time": 1}
        self.act(SENDER, type=n.A_DELIVER, flags=n.F_COMPLETE, block=self.block, **fields)
        return self.heard(RECEIVER, n.W_SEND)

    def fill(self, text: bytes) -> list[dict[str, int]]:
        """Senders to ever new addresses send until there is no room for one; the copies."""
        copies = []
        while sent := self.send(text):
            copies += sent
        return copies


@pytest.mark.parametrize("length", [100, 300, 20_000])
def test_half_of_the_large_blocks_are_left_to_control_payloads(length: int) -> None:
    """However long the addresses are: a worker's work waits behind a payload that finds no block."""
    afar = Afar()
    large = afar.free[1]
    assert afar.fill(bytes(length))
    assert afar.free[1] >= large // 2
    before = afar.free
    for _ in range(PAST):
        assert afar.send(bytes(length)) == []
    assert (afar.free, afar.counted("unaddressed")) == (before, PAST + 1)
    assert {r["state"] for r in afar.heard(SENDER, n.W_UPDATE)} == {n.S_RELEASED}
    for _ in range(large // 2):
        afar.forwarder.post_control(SENDER, C_ATTACHED, bytes(300))
    afar.forwarder.publish()
    assert len(afar.heard(SENDER, n.W_CONTROL)) == large // 2
    assert afar.forwarder.counts()["overflow"] == 0


def test_an_address_that_is_settled_makes_room() -> None:
    """The next message goes, to another address, too."""
    afar = Afar()
    sent = afar.fill(bytes(100))
    afar.act(RECEIVER, type=n.A_UPDATE, flags=n.F_SETTLED, delivery=sent[0]["peer"], state=n.S_ACCEPTED)
    assert afar.send(bytes(100))
    assert afar.send(bytes(100)) == []


def test_what_finds_no_room_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Once a minute, with how many there were."""
    afar = Afar()
    stalls = Stalls(afar.forwarder)
    afar.fill(bytes(20_000))
    with caplog.at_level(logging.WARNING):
        stalls.step(PERIOD_NS)
        for second in range(2, 62):
            afar.send(bytes(20_000))
            stalls.step(second * PERIOD_NS)
    assert [line.partition(" for other routers not made")[0] for line in caplog.messages] == [
        "1 copy was", "60 copies were",
    ]  # fmt: skip
