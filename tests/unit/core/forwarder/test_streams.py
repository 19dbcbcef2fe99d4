"""Streams to another router: each on a link of its own, and what becomes of those that wait for one."""

from bench import contract as n
from core.forwarder.forward import CONTROL_LINK, DATA_LINK, LOCAL, NOTHING, STREAM_LINK, Nodes, StreamLinks
from core.forwarder.link_terms import LinkTerms
from tests.support.beds.forwarding import RECEIVER, SENDER, Bed

FAR, PLACE = 1, 0  # the bit of the other router, and the place of the connection to it
CONTROL, DATA, FIRST, SECOND = 10, 11, 12, 13  # links of the receiver's worker


class Border(Bed):
    """A router with a neighbour where the only other receiver is."""

    def __init__(self) -> None:
        super().__init__()
        self.forwarder.remove_link(RECEIVER, 0, 1)
        self.nodes = Nodes(self.forwarder)
        self.nodes.add_router(FAR, b"0/far")
        self.links = StreamLinks(self.forwarder)
        self.pool = self.links.open()
        assert self.nodes.take_neighbour(self.pool) == PLACE
        self.open(CONTROL, CONTROL_LINK)
        self.open(DATA, DATA_LINK)
        self.nodes.set_neighbour(FAR, PLACE)
        self.nodes.set_path(FAR, FAR, 1, [])
        self.forwarder.set_text(self.address, b"queue")
        self.nodes.add_remote(self.address, FAR)
        self.step()

    def step(self) -> int:
        stop = super().step()
        if stop != LOCAL:
            return stop
        self.thirst = self.links.thirsty()  # as the core's Python asks when it is called for that
        return NOTHING

    def open(self, link: int, kind: int) -> None:
        assert self.nodes.add_link(RECEIVER, link, 1, PLACE, kind, 0, LinkTerms(True, capacity=250))

    def stream(self, peer: int) -> int:
        return self.deliver(b"begin", flags=0, peer=peer)

    def sends(self) -> list[dict[str, int]]:
        self.step()
        return self.heard(RECEIVER, n.W_SEND)


def test_a_stream_waits_for_a_link() -> None:
    """It takes the first that is opened, as it is by then; the next one waits for that to be idle again."""
    border = Border()
    border.stream(1 << 32 | 1)
    border.stream(1 << 32 | 2)
    assert border.sends() == []
    assert border.thirst
    assert border.links.state(border.pool) == (0, 0, 2)
    border.act(SENDER, type=n.A_CONTINUE, link=0, link_gen=1, peer=1 << 32 | 1, length=5, flags=n.F_COMPLETE)
    border.open(FIRST, STREAM_LINK)
    (sent,) = border.sends()
    assert (sent["link"], sent["flags"]) == (FIRST, n.F_COMPLETE)
    assert border.links.state(border.pool) == (1, 0, 1)
    border.act(RECEIVER, type=n.A_UPDATE, flags=n.F_SETTLED, delivery=sent["peer"], state=n.S_ACCEPTED)
    (sent,) = border.sends()
    assert (sent["link"], sent["flags"]) == (FIRST, 0)
    assert border.links.state(border.pool) == (1, 0, 0)


def test_an_aborted_stream_does_not_begin() -> None:
    """It has been waiting in vain, and its content comes back."""
    border = Border()
    block = border.stream(1 << 32 | 1)
    border.act(SENDER, type=n.A_CONTINUE, link=0, link_gen=1, peer=1 << 32 | 1, length=5, flags=n.F_ABORTED)
    border.open(FIRST, STREAM_LINK)
    assert border.sends() == []
    assert [r["block"] for r in border.heard(SENDER, n.W_RELEASE)] == [block]
    assert border.forwarder.counts()["outgoing"] == 0


def test_the_neighbour_goes() -> None:
    """What waited for a link to it was not sent; what was under way may have been."""
    border = Border()
    border.open(FIRST, STREAM_LINK)
    border.stream(1 << 32 | 1)
    border.stream(1 << 32 | 2)
    assert len(border.sends()) == 1
    border.heard(SENDER, 0)
    for link in (FIRST, DATA, CONTROL):
        border.forwarder.remove_link(RECEIVER, link, 1, failed=True)
    border.links.close(border.pool)
    border.nodes.give_neighbour(PLACE)
    border.sends()
    told = {r["delivery"]: r["state"] for r in border.heard(SENDER, n.W_UPDATE)}
    assert told == {1 << 32 | 1: n.S_MODIFIED, 1 << 32 | 2: n.S_RELEASED}
    assert border.nodes.outstanding(border.address) == {}


def test_idle_links_that_are_too_many() -> None:
    """They are taken out of use a few at a time."""
    border = Border()
    for link in range(FIRST, FIRST + 5):
        border.open(link, STREAM_LINK)
    assert border.links.surplus(border.pool, 4, 10) == [(FIRST + 4, 1)]
    assert border.links.surplus(border.pool, 1, 2) == [(FIRST + 3, 1), (FIRST + 2, 1)]
    assert border.links.state(border.pool) == (5, 2, 0)
    border.forwarder.remove_link(RECEIVER, FIRST + 4, 1)
    assert border.links.state(border.pool) == (4, 2, 0)


def test_without_such_links_a_stream_takes_the_way_of_all_messages() -> None:
    """A neighbour that does not know them is sent it over the link of its priority."""
    border = Border()
    border.nodes.set_neighbour(FAR, -1)
    other = border.nodes.take_neighbour(0)
    assert border.nodes.add_link(RECEIVER, SECOND, 1, other, DATA_LINK, 4, LinkTerms(True, capacity=250))
    border.nodes.set_neighbour(FAR, other)
    border.stream(1 << 32 | 1)
    (sent,) = border.sends()
    assert sent["link"] == SECOND
    assert sent["state"] & 16
