"""Route tables in recordings: what stands in them, what is refused, and tables that come in portions."""

from array import array
from functools import cache
from typing import Final

import msgspec
import pytest

from bench import contract as n
from core.forwarder.link_terms import LinkTerms
from core.forwarder.recorded import CALLS, NUMBERS, Routes
from core.rmr.active.compiled import CompiledTable, compile_owners, compile_table
from core.rmr.tables.parser import Parser
from core.rmr.tables.table import Table
from routerd.replay.recording import Recording
from routerd.replay.run import Replay
from routerd.replay.told import step_told
from shm.memory import flight
from shm.memory.flight import RecordingError
from tests.model.network_life import from_checkpoints
from tests.model.table_site import TableSite, got
from tests.support.beds.recorded import Bed

ABOUT, SLOTS, SPECIALS, SENDERS, WORDS, ENDPOINTS = range(19, 25)  # shm/memory/flight.h, enum flight_entry
SENDER: Final = 5  # a link to the table
RECORD: Final = {"type": n.A_DELIVER, "link": SENDER, "link_gen": 1, "flags": n.F_COMPLETE, "length": 5, "state": 1}


def compiled(seed: int, *entries: str) -> CompiledTable:
    text = "\n".join(["newrt|start|t", *entries, f"newrt|end|{len(entries)}", ""])
    (table,) = Parser().feed(text)
    assert isinstance(table, Table)
    return compile_table(table, seed)


class Tabled(Bed):
    """A core with a route table, whose endpoint is the receiver."""

    def __init__(self, lines: int = 1 << 14) -> None:
        super().__init__(lines)
        self.forwarder.add_address(1)
        self.routes = Routes(self.forwarder, self.forwarder.add_address(1))
        self.routes.open()
        self.forwarder.add_link(0, SENDER, 1, LinkTerms(False, self.routes.address, 250, to_table=True))

    def use(self, *entries: str, moved: int = 0) -> CompiledTable:
        made = compiled(self.routes.seed, *entries)
        self.routes.use_table(made.native, array("I", range(moved)))
        if "secret:1" in made.endpoints:
            self.routes.bind(made.endpoints["secret:1"], -1, self.address)
        return made

    def turns(self, number: int) -> None:
        """Messages that take turns of an entry, of which the first member has none."""
        for peer in range(number):
            self.act(0, **RECORD, delivery=1000 | 0xFFFFFFFF << 32, block=1, peer=7 << 32 | peer)
            for one in self.heard(1):
                if one["type"] == n.W_SEND:
                    self.act(1, type=n.A_UPDATE, delivery=one["peer"], flags=n.F_SETTLED, state=n.S_ACCEPTED,
                             block=0xFFFFFFFF)  # fmt: skip
            self.heard(0)


def rows(count: int) -> list[str]:
    """Entries of as many keys."""
    return [f"mse|{1000 + at % 1000}|{at // 1000}|secret:1" for at in range(count)]


def test_neither_names_nor_managed_entities_stand_in_it() -> None:
    """Hashes and numbers stand for them."""
    bed = Tabled()
    bed.use("mse|1000,sender:1|-1|secret:1,other:1", "mse|1001|-1|%meid")
    bed.routes.use_owners(compile_owners({"entity": "secret:1"}, bed.routes.seed).native, array("I"))
    lines = bed.take().lines
    for name in (b"secret", b"sender", b"other", b"entity"):
        assert name not in lines
    told = [step_told(bed.recording(), step) for step in bed.recording().steps()]
    assert any("routes.use_owners" in one for one in told)
    assert Replay(bed.recording()).run() is None


def test_turns_of_a_replay_go_on() -> None:
    """Those of an entry for all and of one for certain senders, also behind the 2^32nd message."""
    bed = Tabled()
    bed.use("mse|1000|-1|gone:1,secret:1")
    bed.routes.set_skip_dead(False)
    bed.turns(9)
    recording = bed.recording()
    assert Replay(recording).run() is None
    at = next(step for step in recording.steps() if step.kind == "call" and CALLS[step.what] == "routes.set_skip_dead")
    without = recording.lines[: at.number * flight.LINE] + recording.lines[(at.number + 1) * flight.LINE :]
    difference = Replay(Recording(msgspec.structs.replace(recording.about, lines=recording.about.lines - 1), without))
    assert difference.run() is not None


def test_no_checkpoint_while_counts_are_on_their_way() -> None:
    """They move in portions to the next table, and a checkpoint describes one."""
    bed = Tabled(1 << 18)
    bed.use(*rows(20_000))
    assert bed.routes.settle()
    bed.use(*rows(20_000), moved=1)
    while flight.header(bed.ring).head < 1 << 16:
        bed.long_call(flight.OCTETS_MOST)
    bed.turns(2)
    assert flight.header(bed.ring).checkpoints == 0
    while not bed.routes.settle():
        pass
    bed.turns(2)
    assert flight.header(bed.ring).checkpoints == 1
    bed.turns(3)
    (recording,) = from_checkpoints(bed.ring)
    assert Replay(recording).run() is None


def test_a_table_that_no_checkpoint_has_room_for() -> None:
    """It is left out, and the recording says that it cannot be replayed."""
    bed = Tabled(1 << 13)
    bed.use(*rows(1000))
    assert Replay(bed.recording()).run() is None
    bed.use(*rows(4000), moved=1)
    with pytest.raises(RecordingError, match="huge route tables"):
        Replay(bed.recording())


@cache
def recorded() -> Recording:
    bed = Tabled()
    bed.use("mse|1000,sender:1|-1|secret:1", "mse|1000|0|secret:1;other:1", "mse|1001|-1|secret:1,other:1")
    return bed.recording()


@pytest.mark.parametrize(
    ("kind", "at", "value", "why"),
    [
        (ABOUT, 0, 3, "has no such size"),
        (ABOUT, 0, 23, "has no such size"),
        (ABOUT, 8, 9, "has another size than it says"),
        (ABOUT, 24, 1 << 31, "has another size than it says"),
        (SLOTS, 0, 1 << 20, "an entry of a route table makes no sense"),
        (SLOTS, 4, 1 << 20, "an entry of a route table makes no sense"),
        (SLOTS, 4, 0x80000007, "an entry of a route table makes no sense"),
        (SPECIALS, 0, 2, "an entry for certain senders makes no sense"),
        (SPECIALS, 4, 2, "an entry for certain senders makes no sense"),
        (SPECIALS, 8, 1 << 20, "an entry for certain senders makes no sense"),
        (SPECIALS, 12, 0, "an entry for certain senders makes no sense"),
        (WORDS, 0, 1 << 20, "makes no sense"),
        (WORDS, 4, 33, "makes no sense"),
        (WORDS, 8, 2, "makes no sense"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(kind: int, at: int, value: int, why: str) -> None:
    """Before a message is looked up in it."""
    recording = recorded()
    part = next(
        step for step in recording.steps() if step.what == NUMBERS["routes.part"] and _part(step.octets)[0] == kind
    )
    octets = bytearray(_part(part.octets)[1])
    octets[at : at + 4] = value.to_bytes(4, "little")
    line = _call(msgspec.msgpack.encode((kind, bytes(octets))))
    length = 1 + max(0, -(-(len(part.octets) - flight.INLINE) // flight.MORE_OCTETS))
    head, tail = recording.lines[: part.number * flight.LINE], recording.lines[(part.number + length) * flight.LINE :]
    with pytest.raises(RecordingError, match=why):
        Replay(Recording.parse(recording.octets(head + line + tail))).run()


def _part(octets: bytes) -> tuple[int, bytes]:
    return msgspec.msgpack.decode(octets, type=tuple[int, bytes])


def _call(octets: bytes) -> bytes:
    line = bytes([flight.CALL, 0, NUMBERS["routes.part"], 0]) + bytes(12) + len(octets).to_bytes(4, "little") + bytes(4)
    lines = line + octets[: flight.INLINE].ljust(flight.INLINE, b"\0")
    for at in range(flight.INLINE, len(octets), flight.MORE_OCTETS):
        lines += bytes([flight.MORE]) + octets[at : at + flight.MORE_OCTETS].ljust(flight.MORE_OCTETS, b"\0")
    return lines


def test_an_address_that_goes_is_bound_to_nothing() -> None:
    """A recording that never unbinds it must not lead to what was there."""
    bed = Tabled()
    gone = bed.forwarder.add_address(1)
    made = bed.use("mse|1000|-1|other:1")
    bed.routes.bind(made.endpoints["other:1"], -1, gone)
    bed.forwarder.remove_address(gone)
    assert bed.forwarder.recorder is not None
    replay = Replay(bed.recording())
    assert replay.run() is None
    forwarder, routes = replay._forwarder, replay._tables._routes[bed.routes.address]
    assert forwarder.counts()["addresses"] == 3
    record = n.pack(**RECORD, delivery=1000 | 0xFFFFFFFF << 32, block=1, peer=7 << 32)
    replay._native.action(0, record, 1)
    assert routes.counts() == (0, 0, 1, 0, 0)


def test_only_a_source_that_changes_something_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that does not get its own message; most sources change nothing."""
    monkeypatch.setattr(TableSite, "flight_lines", 1 << 14)
    site = TableSite()
    site.table("newrt|start|t\nmse|1000|-1|a:1,b:1\nnewrt|end|1\n")
    receivers, link = [site.receiver("a:1"), site.receiver("b:1")], site.sender()
    for number, source in enumerate(("x:1", "", "a:1", "y:1")):
        site.give(link, number, 1000, source=source)
    assert [got(one) for one in receivers] == [[0], [1, 2, 3]]
    assert site.memory.flight is not None
    taken = flight.take(site.memory.flight, "me", "0", "a test", running=False)
    recording = Recording(taken.about, taken.lines)
    assert [len(step.reads) for step in recording.steps() if step.octets[:1] == b"\1" and step.kind == "action"] == [
        0, 0, 1, 0,
    ]  # fmt: skip
    assert Replay(recording).run() is None


@pytest.mark.parametrize("between", ["portion", "call"])
def test_a_source_is_of_its_own_message(between: str) -> None:
    """Not of the next one in the same block, after a message that waited for its address."""
    bed = Tabled()
    bed.use("mse|1000|-1|secret:1")
    parts = [_part(step.octets) for step in bed.recording().steps() if step.what == NUMBERS["routes.part"]]
    name = int.from_bytes(dict(parts)[ENDPOINTS][:8], "little")
    replay = Replay(bed.recording())
    assert replay.run() is None
    routes = replay._tables._routes[bed.routes.address]
    record = n.pack(**RECORD, delivery=1000 | 0xFFFFFFFF << 32, block=1, peer=7 << 32, credit=5)
    for sent in (0, 1):
        assert replay._native.keyed(0, 1, 7, 0, name, bytes(8))
        if sent and between == "portion":
            replay._native.portion(True, 0, 1)
        elif sent:
            replay._native.at(1)
        replay._native.action(0, record, 1)
        assert routes.counts() == (sent, 0, 1, 0, 0)
