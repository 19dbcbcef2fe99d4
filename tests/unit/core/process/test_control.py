"""The core's control plane: attaches, refusals, nonsense, payloads, and the loop that sleeps."""

import logging
import os
import threading
from types import SimpleNamespace

import msgspec
import posix_ipc
import pytest

from bench import contract as n
from bench.contract import C_ATTACH, C_ATTACHED, C_CONNECTION_OPENED, C_DETACH
from core.addresses.names import Names
from core.links.terminus import decide
from core.main import run, serve
from core.process.stall import PERIOD_NS, Stalls
from shm.contract.control import Exit, Ready, Setup, ToChild, WorkerGone, WorkerReclaimed
from shm.contract.payloads import Attach, Attached, ConnectionOpened, Detach, Error
from shm.memory import segment
from shm.statistics.stats import COUNTERS
from tests.support.beds.control import BAD, ME, STALE, Bed


@pytest.fixture
def bed() -> Bed:
    """A core that knows connection 0."""
    made = Bed()
    made.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "c", "h:1"))
    made.step()
    return made


def attach(link: int, *, outgoing: bool = False, address: str | None = "a", connection: int = 0) -> Attach:
    return Attach(link, 1, connection, "l", outgoing, address)


@pytest.mark.parametrize(
    ("asked", "condition", "counter"),
    [
        (attach(0, address="closed.today"), "amqp:not-found", "refused_unavailable"),
        (attach(0, outgoing=True, address="closed"), "amqp:not-found", "refused_unavailable"),
        (attach(0, outgoing=True, address=None), "amqp:precondition-failed", "refused_termini"),
        (attach(0, outgoing=True, address=""), "amqp:precondition-failed", "refused_termini"),
        (Attach(0, 1, 0, "l", False, None, coordinator=True), "amqp:precondition-failed", "refused_termini"),
        (Attach(0, 1, 0, "l", True, None, capabilities=["qd.router"]), "qd:forbidden", "refused_roles"),
        (attach(0, connection=7), "amqp:internal-error", "refused_termini"),
    ],
)
def test_refusals(bed: Bed, caplog: pytest.LogCaptureFixture, asked: Attach, condition: str, counter: str) -> None:
    """A refused link is told why, counted and told of with its peer, and leaves nothing behind."""
    caplog.set_level(logging.INFO, "ROUTER_CORE")
    bed.say(C_ATTACH, asked)
    (answer,) = bed.answers()
    assert {name: bed.stats.get(at) for name, (at, *_) in COUNTERS.items() if name.startswith("refused_")} == {
        name: int(name == counter) for name in COUNTERS if name.startswith("refused_")
    }
    peer = "worker 0 connection 7" if asked.connection else "h:1"
    assert f"link 'l' of {peer} refused: {condition}: " in caplog.text
    assert answer.error is not None
    assert answer.error.condition == condition
    assert len(bed.core.links) == len(bed.core.addresses) == 0
    assert bed.core.forwarder.counts()["links"] == 0


def test_an_address_has_as_many_senders_and_receivers_as_it_may(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """Each of those that a prefix stands for; one that goes makes room, restored ones are not asked."""
    caplog.set_level(logging.INFO, "ROUTER_CORE")

    def refused(*wanted: Attach) -> list[str]:
        for one in wanted:
            bed.say(C_ATTACH, one)
        return [answer.error.condition if answer.error else "" for answer in bed.answers()]

    full = "amqp:resource-limit-exceeded"
    receivers = [attach(i, outgoing=True, address="few.x") for i in range(3)]
    assert refused(*receivers) == ["", "", full]
    assert refused(attach(3, address="few.x"), attach(4, address="few.x")) == ["", full]
    assert refused(attach(5, address="few.y")) == [""]
    assert bed.stats.get(COUNTERS["refused_limits"].place) == 2
    assert (
        "refused: amqp:resource-limit-exceeded: the address has 1 senders here, which is the limit "
        "(maxSenders of its address entity: 1)" in caplog.text
    )
    restored = msgspec.structs.replace(attach(4, address="few.x"), restored=True)
    assert refused(restored) == []
    bed.say(C_DETACH, Detach(3, 1))
    bed.say(C_DETACH, Detach(4, 1))
    assert refused(attach(6, address="few.x")) == [""]


@pytest.mark.parametrize(("listener", "told", "credit"), [(250, 10, 10), (7, 0, 7)])
def test_an_address_may_give_less_credit_than_the_listener(bed: Bed, listener: int, told: int, credit: int) -> None:
    """The worker hears of it before the credit; the smaller one of both counts."""
    bed.say(C_ATTACH, attach(0, outgoing=True, address="few.x"))
    bed.answers()
    bed.say(C_ATTACH, msgspec.structs.replace(attach(1, address="few.x"), capacity=listener))
    records = bed.step()
    (answer,) = [bed.core_arena.read(r["block"]) for r in records if r["type"] == n.W_CONTROL]
    assert msgspec.msgpack.decode(answer, type=Attached).capacity == told
    assert [r["credit"] for r in records if r["type"] == n.W_FLOW] == [credit]


@pytest.mark.parametrize(
    ("flags", "stuck"),
    [pytest.param(n.F_COMPLETE, 1, id="complete"), pytest.param(0, 0, id="a stream, which may have no end")],
)
def test_stuck_deliveries_are_a_gauge(bed: Bed, flags: int, stuck: int) -> None:
    """As of the last look, once a second: one that nobody settles counts once after 10 s, also when its sender has
    gone; one that still arrives does not."""
    second, stalls, gauge = 1_000_000_000, Stalls(bed.core.forwarder), COUNTERS["deliveries_stuck"].place
    bed.say(C_ATTACH, attach(0))
    bed.say(C_ATTACH, attach(1, outgoing=True))
    bed.step()
    block = bed.arena.write(b"x")
    assert block is not None
    place = {"arena": 0, "block": block, "link": 0, "link_gen": 1, "peer": 1 | 1 << 32}
    bed.act(type=n.A_DELIVER, flags=flags, length=1, time=second, **place)
    for now, seen in ((second, 0), (10 * second, 0), (12 * second, stuck)):
        bed.core.step(now)
        assert stalls.step(now) == PERIOD_NS
        assert bed.stats.get(gauge) == seen
    assert bed.core.forwarder.counts()["incoming"] == 1
    bed.say(C_DETACH, Detach(0, 1))
    bed.step()
    bed.core.step(14 * second)
    stalls.step(14 * second)
    assert bed.stats.get(gauge) == stuck


def test_absurd_link_index_is_detached(bed: Bed) -> None:
    """An index beyond all bounds cannot make the core allocate a table for it."""
    bed.say(C_ATTACH, attach(1 << 31))
    kinds = [r["state"] for r in bed.step() if r["type"] == n.W_CONTROL]
    assert kinds == [C_ATTACHED, C_DETACH]
    assert len(bed.core.links) == len(bed.core.addresses) == 0


def test_dynamic_addresses() -> None:
    """Receivers get an address below this router's, senders a mobile one; a seed repeats its names."""
    names, again = Names(b"s"), Names(b"s")
    receiver = decide(Attach(0, 1, 0, "l", True, None, dynamic=True), ME, names)
    sender = decide(Attach(0, 1, 0, "l", False, None, dynamic=True), ME, names)
    assert not isinstance(receiver, Error)
    assert not isinstance(sender, Error)
    assert receiver.text is not None
    assert sender.text is not None
    assert receiver.text == f"amqp:/_topo/0/me/temp.{again.discriminator()}"
    assert sender.text == f"amqp:/_$temp.{again.discriminator()}"
    assert len(receiver.text.rpartition(".")[2]) == 15
    assert Names(b"other").discriminator() != Names(b"s").discriminator()


def test_answer_precedes_credit(bed: Bed) -> None:
    """A link is open before anything else is said of it."""
    bed.say(C_ATTACH, attach(0, outgoing=True))
    bed.say(C_ATTACH, attach(1))
    kinds = [r["type"] for r in bed.step() if r["link"] == 1 or r["type"] == n.W_CONTROL]
    assert kinds == [n.W_CONTROL, n.W_CONTROL, n.W_FLOW]


@pytest.mark.parametrize("kind", [0, C_ATTACH, C_ATTACHED, C_DETACH, 99])
@pytest.mark.parametrize("payload", [b"", b"\xff" * 20, msgspec.msgpack.encode(["x", 1, None])])
def test_nonsense_is_counted_and_given_back(bed: Bed, kind: int, payload: bytes) -> None:
    """A control record that makes no sense is dropped, counted, and its block comes back."""
    bed.say(kind, payload)
    assert [r["type"] for r in bed.step()] == [n.W_RELEASE]
    assert bed.stats.get(BAD) == 1
    assert bed.arena.free == bed.arena.blocks


def test_stale_detach_is_counted(bed: Bed) -> None:
    """A detach of another generation touches nothing."""
    bed.say(C_ATTACH, attach(0))
    bed.say(C_DETACH, Detach(0, 2))
    bed.step()
    assert len(bed.core.links) == 1
    assert bed.stats.get(STALE) == 1


def test_payloads_beyond_the_arena_wait_in_order(bed: Bed) -> None:
    """More answers than blocks: the rest waits until the first are read; nothing overtakes, all come back."""
    pristine = bed.core.forwarder.counts()
    for batch in range(20):
        for i in range(50):
            bed.say(C_ATTACH, attach(batch * 50 + i, outgoing=batch % 2 == 0, address=f"a.{i}"))
        bed.core.step(1)
    seen: list[int] = []
    flows: set[int] = set()
    while records := bed.heard():
        for r in records:
            if r["type"] == n.W_CONTROL:
                answer = msgspec.msgpack.decode(bed.core_arena.read(r["block"]), type=Attached)
                seen.append(answer.link)
            elif r["type"] == n.W_FLOW:
                assert r["link"] in seen
                flows.add(r["link"])
        for r in reversed(records):
            if r["type"] == n.W_CONTROL:
                bed.act(type=n.A_FREE, arena=1, block=r["block"])
        bed.core.step(2)
    assert seen == list(range(1000))
    assert len(flows) == 500
    counts = bed.core.forwarder.counts()
    assert counts["payloads"] == counts["overflow"] == 0
    assert counts["free_small"] == pristine["free_small"]
    assert counts["free_large"] == pristine["free_large"]
    assert bed.stats.get(BAD) == 0


def test_spellings_are_bounded(bed: Bed) -> None:
    """A client that sends to ever new addresses does not make the core grow."""
    from core.forwarder.forward import ALIASES  # noqa: PLC0415 - the bound of this test alone

    forwarder, most = bed.core.forwarder, 0
    for i in range(20_000):
        bed.core.addresses.learn(b"nobody.%d." % i + bytes(4000))
        most = max(most, forwarder.counts()["alias_bytes"])
    assert ALIASES < most < ALIASES + 10_000
    assert forwarder.counts()["aliases"] == len(bed.core.addresses) < 20_000


def test_spellings_in_use_stay(bed: Bed) -> None:
    """Those of 50,000 addresses find room, and one that is used outlives thousands that are not."""
    for i in range(50_000):
        bed.core.addresses.learn(b"somebody.%d" % i)
    assert bed.core.forwarder.counts()["aliases"] == len(bed.core.addresses) == 50_000


def test_wakes_for_a_record_and_for_the_supervisor() -> None:
    """The core sleeps on its semaphore: a worker's record and the supervisor's post wake it; Exit ends it."""
    name = f"/routerd-test-{os.getpid()}-core"
    semaphore = posix_ipc.Semaphore(name, posix_ipc.O_CREX, mode=0o600)
    try:
        bed = Bed(name)
        inbox: list[ToChild] = []
        outbox: list[msgspec.Struct] = []
        channel = SimpleNamespace(receive=lambda: inbox.pop(0) if inbox else None, send=outbox.append)
        done = threading.Event()

        def core() -> None:
            serve(bed.core, SimpleNamespace(step=lambda now: 10**9), channel, lambda: 1, 0)
            done.set()

        thread = threading.Thread(target=core, daemon=True)
        thread.start()
        bed.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "c", "h:1"))
        if bed.doorbell.should_ring():
            semaphore.release()
        while not bed.work.pending():
            assert thread.is_alive()
        assert [r["type"] for r in bed.heard()] == [n.W_RELEASE]
        inbox.append(WorkerGone(0, 1))
        semaphore.release()
        while not outbox:
            assert thread.is_alive()
        assert outbox == [WorkerReclaimed(0, 1)]
        inbox.append(Exit())
        semaphore.release()
        assert done.wait(30)
    finally:
        semaphore.close()
        posix_ipc.unlink_semaphore(name)


class Supervisor:
    """The other end of the control socket."""

    def __init__(self, *says: ToChild) -> None:
        self.says = list(says)
        self.heard: list[msgspec.Struct] = []

    def receive(self) -> ToChild | None:
        if not self.says:
            raise ConnectionError("the supervisor is gone")
        return self.says.pop(0)

    def send(self, message: msgspec.Struct) -> None:
        self.heard.append(message)


@pytest.mark.parametrize("orderly", [True, False])
def test_process_serves_until_told_or_orphaned(orderly: bool) -> None:
    """Ready is the first word; Exit ends it, and so does the loss of the supervisor, with that very error."""
    with segment.create(segment.segment_prefix("test-core", os.getpid()), 1, 1) as segments:
        segments.semaphore.release()
        supervisor = Supervisor(*([Exit()] if orderly else []))
        setup = Setup("core", 1, 3, segments.names.prefix, "me", "0", 1, [-1])
        if orderly:
            run(setup, supervisor)
        else:
            with pytest.raises(ConnectionError):
                run(setup, supervisor)
        assert supervisor.heard == [Ready(os.getpid())]
        page = segments.core_stats()
        assert (page.pid, page.generation) == (os.getpid(), 3)
        del page
