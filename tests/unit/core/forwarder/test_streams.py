"""Streams to another router: each on a link of its own, and what becomes of those that wait for one."""

import pytest

from bench import contract as n
from core.forwarder.forward import CONTROL_LINK, DATA_LINK, LOCAL, NOTHING, STREAM_LINK, Exchanges, Nodes, StreamLinks
from core.forwarder.link_terms import LinkTerms
from tests.support.beds.forwarding import RECEIVER, SENDER, Bed

FAR, PLACE = 1, 0  # the bit of the other router, and the place of the connection to it
CONTROL, DATA, FIRST, SECOND = 10, 11, 12, 13  # links of the receiver's worker
LONG = 128 << 10  # octets of an incomplete message that make it a stream


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
        return self.deliver(b"begin", flags=0, peer=peer, length=LONG)

    def short(self, peer: int, flags: int = 0) -> int:
        return self.deliver(b"begin", flags=flags, peer=peer)

    def go_on(self, peer: int, length: int, flags: int = 0) -> None:
        self.act(SENDER, type=n.A_CONTINUE, link=0, link_gen=1, peer=peer, length=length, flags=flags)

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
    border.go_on(1 << 32 | 1, LONG, n.F_COMPLETE)
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
    border.go_on(1 << 32 | 1, LONG, n.F_ABORTED)
    border.open(FIRST, STREAM_LINK)
    assert border.sends() == []
    assert [r["block"] for r in border.heard(SENDER, n.W_RELEASE)] == [block]
    assert border.forwarder.counts()["outgoing"] == 0


@pytest.mark.parametrize("gone", [False, True])
def test_an_aborted_stream_does_not_wait(gone: bool) -> None:
    """Its content comes back although no link for it is ever idle, and nobody opens one for it."""
    border = Border()
    border.open(FIRST, STREAM_LINK)
    border.stream(1 << 32 | 1)
    assert len(border.sends()) == 1
    blocks = [border.stream(1 << 32 | peer) for peer in range(2, 5)]
    complete = border.stream(1 << 32 | 5)
    border.go_on(1 << 32 | 5, LONG, n.F_COMPLETE)
    if gone:
        border.forwarder.remove_link(SENDER, 0, 1)
    else:
        for peer in range(2, 5):
            border.go_on(1 << 32 | peer, LONG, n.F_ABORTED)
    border.step()
    released = [r["block"] for r in border.heard(SENDER, n.W_RELEASE)]
    assert released == blocks
    assert complete not in released
    assert border.links.state(border.pool) == (1, 0, 1)
    assert border.counted("unsent") == 3


@pytest.mark.parametrize("links", [0, 1])
def test_a_short_message_that_came_in_two_reads_keeps_its_place(links: int) -> None:
    """It is sent when it is complete, over the link of all messages, and so before the next of its sender."""
    border = Border()
    for link in range(FIRST, FIRST + links):
        border.open(link, STREAM_LINK)
    border.short(1 << 32 | 1)
    assert border.sends() == []
    border.go_on(1 << 32 | 1, LONG - 1)
    assert border.sends() == []
    border.go_on(1 << 32 | 1, LONG + 1, n.F_COMPLETE)
    border.short(0, n.F_COMPLETE | n.F_SETTLED)
    sent = border.sends()
    assert [(r["link"], r["length"], r["state"] & 16) for r in sent] == [(DATA, LONG + 1, 0), (DATA, 5, 0)]
    for r in sent:
        border.act(RECEIVER, type=n.A_UPDATE, flags=n.F_SETTLED, delivery=r["peer"], state=n.S_ACCEPTED)
    assert border.links.state(border.pool) == (links, links, 0)
    assert border.forwarder.counts()["outgoing"] == 0


def test_a_short_message_does_not_go_on_over_a_link_that_goes() -> None:
    """Its worker has lost the link of all messages, whose deliveries the core is ending in portions."""
    border = Border()
    block = border.short(1)
    for peer in range(2, 3002):
        border.act(SENDER, type=n.A_DELIVER, flags=n.F_COMPLETE, link=0, link_gen=1, block=block, peer=peer, time=1)
        border.heard(RECEIVER, 0)
    assert border.forwarder.thin_link(RECEIVER, DATA, 1)
    border.go_on(1, 6, n.F_COMPLETE)
    assert border.sends() == []
    border.forwarder.remove_link(RECEIVER, DATA, 1)
    border.open(FIRST, STREAM_LINK)
    assert [r["link"] for r in border.sends()] == [FIRST]


@pytest.mark.parametrize(("length", "flags"), [(LONG, 0), (6, n.F_STALLED)])
def test_a_message_grows_into_a_stream(length: int, flags: int) -> None:
    """It is long, or its worker has no blocks for more of it unless somebody reads."""
    border = Border()
    border.open(FIRST, STREAM_LINK)
    border.short(1 << 32 | 1)
    border.short(1 << 32 | 2)
    border.go_on(1 << 32 | 1, length, flags)
    (sent,) = border.sends()
    assert (sent["link"], sent["length"], sent["state"] & 16) == (FIRST, length, 16)
    border.go_on(1 << 32 | 2, length, flags)
    assert border.sends() == []
    assert border.thirst
    assert border.links.state(border.pool) == (1, 0, 1)


def test_a_receiver_far_behind_gets_no_more_settled_messages_that_came_in_two_reads() -> None:
    """As many are dropped as if they had come at once: only the first half of the link's capacity waits twice."""
    border = Border()
    border.forwarder.add_alias(b"queue", border.address)
    block = border.arena.write(b"queue")
    assert block is not None
    border.say_where_to(block, 0, 5)
    for number in range(600):
        fields = {"link": 1, "link_gen": 1, "peer": 1 << 32 | number + 1}
        border.act(SENDER, type=n.A_DELIVER, flags=n.F_SETTLED, block=block, length=5, time=1, **fields)
        border.act(SENDER, type=n.A_CONTINUE, flags=n.F_COMPLETE, length=6, **fields)
        border.heard(SENDER, 0)
    assert len(border.sends()) == 500
    assert border.forwarder.counts()["outgoing"] == 500


@pytest.mark.parametrize("receivers", [60, 70])
def test_a_short_message_for_many_that_is_complete_before_its_copies_are_made(receivers: int) -> None:
    """Copies for more than 64 receivers are made later: one for an edge router is of a whole message by then."""
    edge = 500
    bed = Bed("multicast")
    for link in (*range(1, receivers), edge):
        assert bed.forwarder.add_link(
            RECEIVER, link, 1, LinkTerms(True, bed.address, 250, edge=7 if link == edge else 0)
        )
    links = StreamLinks(bed.forwarder)
    pool = links.open()
    links.use(pool, RECEIVER, edge, 1)
    assert links.add_link(pool, RECEIVER, edge + 1, 1, 250)
    block = bed.arena.write(b"begin")
    assert block is not None
    fields = {"link": 0, "link_gen": 1, "peer": 1 << 32 | 1}
    assert bed.actions[SENDER].push(n.pack(type=n.A_DELIVER, block=block, length=5, time=1, **fields))
    assert bed.actions[SENDER].push(n.pack(type=n.A_CONTINUE, length=9, flags=n.F_COMPLETE, **fields))
    bed.actions[SENDER].publish()
    while bed.step() == LOCAL:
        pass
    sent = bed.heard(RECEIVER, n.W_SEND)
    assert len(sent) == receivers + 1
    assert [r["link"] for r in sent if r["link"] >= edge] == [edge]
    assert links.state(pool) == (1, 1, 0)


def test_a_short_message_is_aborted() -> None:
    """Nobody has heard of it."""
    border = Border()
    border.open(FIRST, STREAM_LINK)
    block = border.short(1 << 32 | 1)
    border.go_on(1 << 32 | 1, 5, n.F_ABORTED)
    assert border.sends() == []
    assert [r["block"] for r in border.heard(SENDER, n.W_RELEASE)] == [block]
    assert border.forwarder.counts()["outgoing"] == 0


NOBODYS = 0x29A  # a state that no specification has


def say(border: Border, peer: int, state: int = NOBODYS, flags: int = 0) -> int:
    """The sender says a state with fields; the block that has its octets."""
    block = border.arena.write(b"octets")
    assert block is not None
    update = {"flags": n.F_IN | flags, "state": state, "extra": n.D_PAYLOAD, "arena": SENDER, "block": block}
    border.act(SENDER, type=n.A_UPDATE, link=0, link_gen=1, peer=peer, **update)
    return block


@pytest.mark.parametrize("settled", [0, n.F_SETTLED])
def test_what_a_sender_says_of_a_message_that_waits_is_kept(settled: int) -> None:
    """The last that it has said: the first transfer to the other router says it, too."""
    border = Border()
    border.stream(1 << 32 | 1)
    first = say(border, 1 << 32 | 1)
    last = say(border, 1 << 32 | 1, flags=settled)
    assert [r["block"] for r in border.heard(SENDER, n.W_RELEASE)] == [first]
    border.open(FIRST, STREAM_LINK)
    border.step()
    sent, told = [r for r in border.heard(RECEIVER, 0) if r["type"] in (n.W_SEND, n.W_UPDATE)]
    assert (sent["type"], sent["flags"] & n.F_SETTLED) == (n.W_SEND, settled)
    assert (told["peer"], told["flags"], told["state"]) == (sent["peer"], 0, NOBODYS)
    assert (told["arena"], told["block"], told["extra"]) == (SENDER, last, n.D_PAYLOAD)


def test_what_was_said_of_a_message_that_never_goes_comes_back() -> None:
    """Its block is free again, as that of the message."""
    border = Border()
    block = border.short(1 << 32 | 1)
    said = say(border, 1 << 32 | 1)
    border.go_on(1 << 32 | 1, 5, n.F_ABORTED)
    assert {r["block"] for r in border.heard(SENDER, n.W_RELEASE)} == {block, said}
    assert border.sends() == []


def test_the_sender_of_a_short_message_goes() -> None:
    """So does what it left."""
    border = Border()
    block = border.short(1 << 32 | 1)
    border.forwarder.remove_link(SENDER, 0, 1)
    border.step()
    assert border.heard(SENDER, n.W_RELEASE)[0]["block"] == block
    assert border.forwarder.counts()["outgoing"] == 0


def test_the_neighbour_of_a_short_message_goes() -> None:
    """The message has not been sent; it may come to its end before the connection's links for streams are closed."""
    border = Border()
    border.short(1 << 32 | 1)
    border.short(1 << 32 | 2)
    for link in (DATA, CONTROL):
        border.forwarder.remove_link(RECEIVER, link, 1, failed=True)
    border.go_on(1 << 32 | 1, 6, n.F_COMPLETE)
    assert border.sends() == []
    border.links.close(border.pool)
    border.nodes.give_neighbour(PLACE)
    border.sends()
    told = {r["delivery"]: r["state"] for r in border.heard(SENDER, n.W_UPDATE)}
    assert told == {1 << 32 | 1: n.S_RELEASED, 1 << 32 | 2: n.S_RELEASED}
    assert border.nodes.outstanding(border.address) == {}


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


@pytest.mark.parametrize("gone", [False, True])
def test_two_copies_for_one_neighbour_are_aborted(gone: bool) -> None:
    """The end of the one that has a link makes that idle, and the other one, which waited for it, ends only once."""
    border = Border()
    hops = []
    for text in (b"one", b"two"):
        address = border.forwarder.add_address(1)
        border.nodes.add_remote(address, FAR)
        hops.append((address, text))
    exchange = border.forwarder.add_address(1)
    Exchanges(border.forwarder).put(exchange, b".", [(0, 0, b"")], [(0, 0, 0), (0, 1, 0)], hops)
    assert border.forwarder.add_link(SENDER, 3, 1, LinkTerms(False, exchange, 10))
    border.open(FIRST, STREAM_LINK)
    message = {"link": 3, "link_gen": 1, "peer": 1 << 32 | 1}
    block = border.deliver(b"begin", flags=0, **{name: message[name] for name in ("link", "peer")})
    border.act(SENDER, type=n.A_CONTINUE, length=LONG, **message)
    (sent,) = border.sends()
    assert border.links.state(border.pool) == (1, 0, 1)
    border.act(RECEIVER, type=n.A_UPDATE, delivery=sent["peer"], state=n.S_REJECTED)
    if gone:
        border.forwarder.remove_link(SENDER, 3, 1)
    else:
        border.act(SENDER, type=n.A_CONTINUE, length=LONG, flags=n.F_ABORTED, **message)
    border.step()
    assert [r["block"] for r in border.heard(SENDER, n.W_RELEASE)] == [block]
    assert border.links.state(border.pool) == (1, 1, 0)
    counts = border.forwarder.counts()
    assert (counts["incoming"], counts["outgoing"]) == (0, 0)


def test_a_router_goes_before_its_destinations_are_unmapped() -> None:
    """An address that only it had receivers of leads nowhere from then on: its senders give their credit back."""
    border = Border()
    border.nodes.remove_router(FAR)
    assert not border.forwarder.address_info(border.address)["reached"]
    border.short(1 << 32 | 1, n.F_COMPLETE)
    kinds = [r["type"] for r in border.heard(SENDER, 0)]
    assert n.W_DRAIN in kinds
