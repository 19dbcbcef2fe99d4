"""A checkpoint has the border between dialects: what routers tell each other of addresses stays on its side."""

import pytest

from bench import contract as n
from core.forwarder.forward import CONTROL_LINK, LOCAL, NOTHING, UNKNOWN
from core.forwarder.link_terms import LinkTerms
from core.forwarder.recorded import Nodes, Pools
from routerd.replay.run import Replay
from shm.memory import flight
from tests.model.network_life import from_checkpoints
from tests.support.beds.recorded import Bed

NEAR, FAR = 1, 2  # bits of the neighbours; the second one speaks the other dialect
FROM, TO = 10, 11  # control links: from the first one, and to the second one
CORE = 2  # the core's place, beside two workers
CLOSEST, CONTROL = 0, 4


class Border(Bed):
    """A router between a neighbour of each dialect."""

    stops = (NOTHING, LOCAL, UNKNOWN)

    def __init__(self) -> None:
        super().__init__(1 << 13)
        nodes = Nodes(self.forwarder)
        for bit, name in enumerate((b"0/me", b"0/near", b"0/far")):
            nodes.add_router(bit, name)
        places = [nodes.take_neighbour(0), nodes.take_neighbour(0, abroad=True)]
        assert nodes.add_link(0, FROM, 1, places[0], CONTROL_LINK, 0, LinkTerms(False, capacity=250))
        assert nodes.add_link(1, TO, 1, places[1], CONTROL_LINK, 0, LinkTerms(True, capacity=250))
        for bit, place in zip((NEAR, FAR), places, strict=True):
            nodes.set_neighbour(bit, place)
            nodes.set_path(bit, bit, 1, [])
        border = self.forwarder.add_address(CONTROL)
        assert self.forwarder.add_link(CORE, 0, 1, LinkTerms(True, border, 250))
        nodes.set_border(border)
        self.blocks = n.ArenaOwner(self.memory.arenas[0])
        for text in (b"_topo/0/far/qdrouter.ma", b"_topo/0/far/qdhello"):
            there = self.forwarder.add_address(CLOSEST)
            self.forwarder.add_alias(text, there)
            nodes.add_remote(there, FAR)

    def tell(self, text: bytes) -> list[int]:
        """Let a message come from the first neighbour. Return the links to the second one that it goes on."""
        block = self.blocks.write(text)
        assert block is not None
        self.memory.say_where_to(0, block, 0, len(text))
        whole = {"flags": n.F_COMPLETE | n.F_SETTLED, "length": len(text)}
        self.act(0, type=n.A_DELIVER, link=FROM, link_gen=1, block=block, peer=0, **whole)
        return [one["link"] for one in self.heard(1) if one["type"] == n.W_SEND]


@pytest.mark.parametrize(("text", "links"), [(b"_topo/0/far/qdrouter.ma", []), (b"_topo/0/far/qdhello", [TO])])
def test_what_is_said_of_addresses_stays_on_its_side(text: bytes, links: list[int]) -> None:
    """All else goes on, before and behind a checkpoint."""
    bed = Border()
    assert bed.tell(text) == links
    while not flight.header(bed.ring).checkpoints:
        bed.forwarder.own_work()  # a checkpoint waits until the core has taken what it was sent
        bed.exchange(8)
    assert bed.tell(text) == links
    bed.exchange()  # whatever a replay sent in its place stands in front of this
    (recording,) = from_checkpoints(bed.ring)
    assert Replay(recording).run() is None


def test_such_a_text_is_forgotten() -> None:
    """The next message to it waits until its address is found again, in a replay as well."""
    bed = Border()
    text = b"here/qdrouter.ma"
    bed.forwarder.add_alias(text, bed.address)
    assert bed.tell(text) == [0]
    pools = Pools(bed.forwarder)
    for minute in range(1, 15):
        pools.thin_aliases(minute * 60_000_000_000)
    assert bed.forwarder.counts()["aliases"] == 0
    assert bed.tell(text) == []
    bed.exchange()
    assert Replay(bed.recording()).run() is None
