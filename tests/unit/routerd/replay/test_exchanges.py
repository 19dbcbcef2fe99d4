"""Exchanges in recordings: what stands in them, and what is refused."""

import pytest

from core.forwarder.link_terms import LinkTerms
from core.forwarder.recorded import Exchanges
from routerd.replay.recording import Recording
from routerd.replay.run import Replay
from shm.memory import flight
from shm.memory.flight import RecordingError
from tests.model.exchange_life import ExchangeLife
from tests.model.network_life import from_checkpoints
from tests.support.beds.recorded import Bed

ADDRESS, EXCHANGE, HOPS = 4, 26, 27  # shm/memory/flight.h, enum flight_entry


def test_neither_keys_nor_subjects_stand_in_it() -> None:
    """Which hops a message matches does, also where there are more than a line has room for."""
    life = ExchangeLife(1, 1 << 18)
    life.run(800)
    taken = flight.take(life.ring, "me", "0", "a test", running=False)
    recording = Recording(taken.about, taken.lines)
    hops = [read for step in recording.steps() for read in step.reads if read.kind == flight.HOPS]
    assert any(one.hashed for one in hops)
    assert all(one.number == (one.hashed == 0) for one in hops)
    for text in (b"a.b", b"c.c.b", b"many.", b"multicast"):
        assert text not in taken.lines
    assert Replay(recording).run() is None


def test_the_core_s_own_messages_pass_an_exchange() -> None:
    """They have no subject, and a replay has octets of zeros in their place."""
    bed = Bed()
    exchange = bed.forwarder.add_address(1)
    table = Exchanges(bed.forwarder)
    table.put(exchange, b".", [(0, 0, b""), (0, 2, b"")], [(1, 0, 0)], [(bed.address, b"text")])
    bed.forwarder.add_link(2, 0, 1, LinkTerms(False, 0, 250))
    bed.forwarder.own_send(0, exchange, b"\0Sr\xc0\1\0")
    bed.forwarder.publish()
    assert [one["type"] for one in bed.heard(1)] == [1]
    table.remove(exchange)
    assert bed.forwarder.remove_address(exchange)
    assert Replay(bed.recording()).run() is None


def checkpoint() -> Recording:
    """A checkpoint of a core with an exchange."""
    bed = Bed(8192)
    exchange = bed.forwarder.add_address(1)
    hops = [(bed.address, b"text"), (exchange, b"")]
    Exchanges(bed.forwarder).put(exchange, b".", [(0, 0, b"")], [], hops, 1)
    bed.exchange(400)
    (recording, *_) = from_checkpoints(bed.ring)
    assert Replay(recording).run() is None
    return recording


@pytest.mark.parametrize(
    ("kind", "at", "value", "why"),
    [
        (EXCHANGE, 32, 0, "an exchange makes no sense"),
        (EXCHANGE, 36, 1 << 30, "an exchange makes no sense"),
        (EXCHANGE, 40, 2, "an exchange makes no sense"),
        (EXCHANGE, 36, 3, "an exchange has not all of its hops"),
        (HOPS, 0, 99, "a hop leads nowhere"),
        (HOPS, 8, 1 << 20, "a text makes no sense"),
        (ADDRESS, 24, 7, "an address is held by nobody"),
    ],
)
def test_an_exchange_that_makes_no_sense_is_refused(kind: int, at: int, value: int, why: str) -> None:
    """Before a message passes it."""
    recording = checkpoint()
    step = next(one for one in recording.steps() if one.kind == "entry" and one.what == kind)
    place = step.number * flight.LINE + flight.LINE - flight.INLINE + at
    if at >= flight.INLINE:
        place += 1  # the octet that begins the next line
    lines = recording.lines[:place] + value.to_bytes(4, "little") + recording.lines[place + 4 :]
    with pytest.raises(RecordingError, match=why):
        Replay(Recording(recording.about, lines)).run()
