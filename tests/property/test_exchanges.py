"""Exchanges: which addresses a message goes to by its subject, against a plain model of the keys."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from bench import contract as n
from core.addresses.addresses import TREATMENTS
from core.exchanges.keys import SEPARATORS, compile_keys
from core.forwarder.forward import NOTHING, Exchanges, Forwarder
from core.forwarder.link_terms import LinkTerms
from tests.model.memory import Memory

ARENA = 128 * 1024
HEADER, PROPERTIES = 128 + 16, 28  # of a block; in it, where the content header says where properties begin
AFRESH = 32  # record.h, send_routed
WILD = {"amqp": ("*", "#"), "mqtt": ("+", "#")}


def matches(key: list[str], subject: list[str], one: str) -> bool:
    """Token by token, trying everything."""
    if not key:
        return not subject
    if key[0] == "#":
        return any(matches(key[1:], subject[i:], one) for i in range(len(subject) + 1))
    return bool(subject) and key[0] in (one, subject[0]) and matches(key[1:], subject[1:], one)


def properties(subject: str | None, before: list[bytes]) -> bytes:
    """The section, with three fields before the subject."""
    text = b"\x40" if subject is None else b"\xb1" + struct.pack(">I", len(subject)) + subject.encode()
    fields = b"".join(before) + text + b"\x40"
    return b"\x00\x53\x73\xd0" + struct.pack(">II", len(fields) + 4, 5) + fields


class Bed:
    """One worker with a sender to an exchange (link 0) and a receiver (links 1...) at each next hop."""

    def __init__(self) -> None:
        memory = Memory(1, n.RING_CAPACITY, ARENA)
        rings, control, self.arenas = memory.rings, memory.control, memory.arenas
        self.forwarder = Forwarder(1, control, rings, self.arenas, [-1])
        self.exchanges = Exchanges(self.forwarder)
        self.actions = n.Producer(rings, n.action_ring_offset(0))
        self.work = n.Consumer(rings, n.work_ring_offset(0))
        self.arena = n.ArenaOwner(self.arenas[0])
        self.stats = n.StatsPage(control, n.stats_offset(1))
        self.address = self.forwarder.add_address(TREATMENTS.index("balanced"))
        self.hops: list[int] = []
        self.forwarder.add_link(0, 0, 1, LinkTerms(False, self.address, 250))

    def bind(self, keys: list[str | None], method: str, alternate: bool) -> None:
        """A binding for each key, each with an address of its own, and one more for the rest."""
        nodes, ends = compile_keys(keys, method)
        for _ in range(len(keys) + alternate):
            self.hops.append(self.forwarder.add_address(TREATMENTS.index("balanced")))
            assert self.forwarder.add_link(0, len(self.hops), 1, LinkTerms(True, self.hops[-1], 250))
        bindings = [(end, number, 0) for number, end in enumerate(ends)]
        hops = [(hop, b"told") for hop in self.hops]
        self.exchanges.put(self.address, SEPARATORS[method], nodes, bindings, hops, len(keys) if alternate else None)

    def point_at_properties(self, block: int) -> None:
        small, large = self.arena.blocks
        first = 4096 + (small + large + 4095) // 4096 * 4096
        place = block * 512 if block < small else small * 512 + (block - small) * 16384
        struct.pack_into("=I", self.arenas[0], first + place + HEADER + PROPERTIES, 0)

    def send(self, content: bytes) -> set[int]:
        """The numbers of the next hops that get it."""
        block = self.arena.write(content)
        assert block is not None
        self.point_at_properties(block)
        fields = {"link": 0, "link_gen": 1, "block": block, "peer": 1 << 32, "length": len(content)}
        assert self.actions.push(n.pack(type=n.A_DELIVER, flags=n.F_COMPLETE, **fields))
        self.actions.publish()
        assert self.forwarder.step(1) == NOTHING
        found = [n.unpack(record) for record in iter(self.work.pop, None)]
        self.work.give_back()
        sent = [record for record in found if record["type"] == n.W_SEND]
        for record in sent:
            assert record["state"] & AFRESH
            settled = {"flags": n.F_SETTLED, "state": n.S_ACCEPTED, "delivery": record["peer"]}
            assert self.actions.push(n.pack(type=n.A_UPDATE, **settled))
        self.actions.publish()
        assert self.forwarder.step(2) == NOTHING
        for record in iter(self.work.pop, None):
            fields = n.unpack(record)
            if fields["flags"] & n.F_RELEASE or fields["type"] == n.W_RELEASE:
                self.arena.free_chain(fields["block"])
        self.work.give_back()
        return {record["link"] - 1 for record in sent}


TOKENS = st.sampled_from(["a", "b", "cc", ""])
FIELDS = st.sampled_from([
    b"\x40", b"\x44", b"\x53\x07", b"\x80" + bytes(8), b"\x98" + bytes(16), b"\xa0\x03xyz", b"\xa1\x02to",
    b"\xb1" + struct.pack(">I", 700) + b"t" * 700,
])  # fmt: skip
METHODS = st.sampled_from(["amqp", "mqtt"])


@st.composite
def keys(draw: st.DrawFn, method: str) -> list[str]:
    """The tokens of a key."""
    tokens = draw(st.lists(st.one_of(TOKENS, st.sampled_from(WILD[method])), min_size=1, max_size=5))
    if method == "mqtt":
        tokens = [one.replace("#", "a") for one in tokens[:-1]] + tokens[-1:]
    return tokens


@settings(max_examples=200, deadline=None)
@given(st.data(), METHODS, st.booleans())
def test_every_matching_binding_sends(data: st.DataObject, method: str, alternate: bool) -> None:
    """Each next hop gets a message once, the alternate address what no binding has, and all is counted."""
    one, separator = WILD[method][0], SEPARATORS[method].decode()
    wanted = data.draw(st.lists(keys(method), max_size=8), "keys")
    bed = Bed()
    bed.bind([separator.join(key) or None for key in wanted], method, alternate)
    matched = [0] * len(wanted)
    lost = sent = 0
    for _ in range(4):
        subject = data.draw(st.one_of(st.none(), st.lists(TOKENS, min_size=1, max_size=6)), "subject")
        text = None if subject is None else separator.join(subject)
        tokens = text.split(separator) if text else []
        expected = {number for number, key in enumerate(wanted) if matches(["#"] if key == [""] else key, tokens, one)}
        for number in expected:
            matched[number] += 1
        sent += bool(expected)
        lost += not expected
        rest = {len(wanted)} if alternate and not expected else set()
        fields = data.draw(st.lists(FIELDS, min_size=3, max_size=3), "fields")
        assert bed.send(properties(text, fields)) == expected | rest
    received, forwarded, diverted, dropped, counted = bed.exchanges.counts(bed.address)
    assert counted == matched
    assert (received, diverted, dropped) == (4, lost * alternate, lost * (not alternate))
    assert forwarded == sent + diverted
    assert bed.forwarder.counts()["incoming"] == bed.forwarder.counts()["outgoing"] == 0


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60))
def test_what_a_worker_points_at_is_not_trusted(rest: bytes) -> None:
    """Whatever stands where properties should: the message goes on or is dropped, and nothing breaks."""
    bed = Bed()
    bed.bind(["a", None], "amqp", False)
    assert bed.send(b"\x00\x53\x73" + rest) <= {0, 1}
    assert bed.send(rest) <= {0, 1}


def test_many_wildcards_cost_no_more_than_their_number() -> None:
    """A key made to be tried in every way, and a subject that nearly fits it."""
    bed = Bed()
    bed.bind([".".join(["#", "a"] * 12 + ["z"])], "amqp", False)
    assert bed.send(properties(".".join(["a"] * 3000), [b"\x40"] * 3)) == set()


def test_an_exchange_that_leads_to_itself_sends_once() -> None:
    """Two exchanges, each a next hop of the other."""
    bed = Bed()
    bed.bind([None], "amqp", False)
    nodes, ends = compile_keys([None, None], "amqp")
    bindings = [(end, number, 0) for number, end in enumerate(ends)]
    bed.exchanges.put(bed.hops[0], b".", nodes, bindings, [(bed.address, b""), (bed.hops[0], b"")])
    assert bed.send(properties("s", [b"\x40"] * 3)) == {0}
    bed.exchanges.remove(bed.hops[0])
    bed.exchanges.remove(bed.address)
    assert bed.exchanges.counts(bed.address) == (0, 0, 0, 0, [])


def test_a_subject_beyond_all_bounds_matches_nothing() -> None:
    """Not even what the part of it that is looked at would."""
    bed = Bed()
    bed.bind(["a.#"], "amqp", False)
    assert bed.send(properties("a." + "b" * 16382, [b"\x40"] * 3)) == {0}
    assert bed.send(properties("a." + "b" * 16383, [b"\x40"] * 3)) == set()


def test_a_subject_that_takes_too_many_steps_matches_what_every_message_does() -> None:
    """Senders choose subjects, and the core reads them for each message: 1,000 tokens at one place of the tree each."""
    bed = Bed()
    bed.bind(["#.z", None], "amqp", False)
    within = ".".join(["a"] * 330 + ["z"])  # one token at three places: the root's #, and the key's
    assert bed.send(properties(within, [b"\x40"] * 3)) == {0, 1}
    assert bed.send(properties(".".join(["a"] * 8000 + ["z"]), [b"\x40"] * 3)) == {1}
