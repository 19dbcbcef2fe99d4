"""Texts that no message names any more are forgotten, with addresses that nothing else uses."""

from bench import contract as n
from core.addresses.addresses import Addresses, Identity, Rules
from core.forwarder.link_terms import LinkTerms
from core.process.memory import Memory
from tests.support.beds.forwarding import INCOMING, RECEIVER, SENDER, Bed

SECOND = 1_000_000_000
LEAST, MOST = 5 * 60, 7 * 60  # seconds without a message, after which a text goes
AT_ONCE = 32  # addresses that one step forgets
MANY = 20_000


class Texts:
    """A forwarder, its addresses, and a clock."""

    def __init__(self) -> None:
        self.bed = Bed()
        self.addresses = Addresses(self.bed.forwarder, Identity("me"), Rules([], "balanced"))
        self.memory = Memory(self.bed.forwarder, self.addresses)
        self.now, self.most, self.longest = 1000 * SECOND, 0, 0

    @property
    def count(self) -> int:
        return self.bed.forwarder.counts()["aliases"]

    def rest(self, seconds: int) -> None:
        """So much time passes."""
        until = self.now + seconds * SECOND
        while self.now < until:
            before = len(self.addresses)
            self.now += self.memory.step(self.now)
            self.most = max(self.most, before - len(self.addresses))

    def send(self, text: bytes) -> None:
        """The anonymous sender sends to a text that is known."""
        block = self.bed.arena.write(text)
        assert block is not None
        self.bed.say_where_to(block, 0, len(text))
        fields = {"link": 1, "link_gen": 1, "block": block, "peer": INCOMING, "length": len(text)}
        self.bed.act(SENDER, type=n.A_DELIVER, flags=n.F_COMPLETE | n.F_SETTLED, **fields)
        self.bed.heard(SENDER, 0)
        self.bed.arena.free_chain(block)


def test_texts_that_nobody_uses_go() -> None:
    """After some minutes and a little at a time, refused ones, too; what messages still name stays."""
    texts = Texts()
    for i in range(MANY):
        texts.addresses.learn(b"once.%d" % i)
        texts.bed.forwarder.add_alias(b"refused.%d" % i, 0)
    texts.addresses.learn(b"often")
    for _ in range(LEAST // 60 - 1):
        texts.rest(60)
        texts.send(b"often")
    assert texts.count == 2 * MANY + 1
    for _ in range((MOST - LEAST) // 60 + 2):
        texts.rest(60)
        texts.send(b"often")
    assert (texts.count, len(texts.addresses)) == (1, 1)
    assert texts.addresses.find("often") is not None
    assert 0 < texts.most <= AT_ONCE
    texts.rest(MOST + 60)
    assert (texts.count, len(texts.addresses)) == (0, 0)


def test_an_address_with_links_loses_its_texts_alone() -> None:
    """Its receiver goes on; the next message to the text has it looked up again."""
    texts = Texts()
    address = texts.addresses.resolve("used")
    assert texts.bed.forwarder.add_link(RECEIVER, 7, 1, LinkTerms(True, address.handle, 10))
    texts.addresses.learn(b"/used")
    texts.rest(MOST + 60)
    assert texts.count == 0
    assert texts.addresses.find("used") is address


def test_texts_that_have_gone_may_come_again() -> None:
    """While the table shrinks and grows, and the clock of seconds, which has 16 bits, comes round."""
    texts = Texts()
    for age in (0, 1 << 16, 3 << 15):
        texts.now += age * SECOND
        for i in range(1000):
            texts.addresses.learn(b"again.%d" % i)
        texts.rest(LEAST - 60)
        assert (texts.count, len(texts.addresses)) == (1000, 1000)
        texts.rest(MOST - LEAST + 120)
        assert (texts.count, len(texts.addresses)) == (0, 0)
