"""One peer's DISPOSITIONs over thousands of deliveries: their work is its own, and no other client waits for it."""

import struct
import time
from collections.abc import Iterator
from functools import partial

import pytest
from proton import uint

from tests.support.clients.wire import CLOSE, DISPOSITION, NULL, TRANSFER, TRUE, Wire, encode, frame, listed, parse
from tests.support.hostile.verdict import Verdict
from tests.support.running import LONG, Configuration, RunningRouter, roles, until

LINKS, DELIVERIES = 10, 2500
BODY = b"\0\x53\x75\xa0\x01x"
ACCEPTED = b"\0\x53\x24\x45"
OUTCOMES = b"\0\x53\x24", b"\0\x53\x25"  # accepted, rejected
LAST, FRAME_HEAD = 0x7FFFFFF0, 8


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """A small arena, which a peer could use up."""
    return Configuration(router="workers: 2\n arenaSize: 8")


def received(section: int) -> bytes:
    """The state `received`, which settles nothing."""
    return listed(0x23, encode(uint(section)), b"\x44")


def disposition(state: bytes, settled: bytes = NULL) -> bytes:
    """Of all deliveries that its sender has received."""
    return frame(0, listed(DISPOSITION, TRUE, b"\x43", b"\x70" + struct.pack(">I", LAST), settled, state))


class Loaded(Wire):
    """A connection that has sent itself 2500 unsettled messages, and received them."""

    def __init__(self, address: tuple[str, int], name: str) -> None:
        super().__init__(address, sessions=2)
        self.name, self.rest, self.settled = name, b"", 0
        self.kinds: dict[int, int] = {}

    def load(self) -> None:
        for link in range(LINKS):
            self.attach_receiver(f"{self.name}/{link}", 1_000_000, link)
        self.channel = 1
        for link in range(LINKS):
            self.attach_sender(f"{self.name}/{link}", link)
        for delivery in range(DELIVERIES):
            self.transfer(delivery, BODY, handle=delivery % LINKS)
            if delivery % 100 == 99:
                until(partial(self.has, delivery - 100), "what was sent")
        until(partial(self.has, DELIVERIES), "all messages")

    def has(self, messages: int) -> bool:
        """Whether so many have come."""
        return self.came(TRANSFER) >= messages

    def came(self, kind: int) -> int:
        """Reads what there is; returns how many frames of a kind have come."""
        self.socket.setblocking(False)
        try:
            while some := self.socket.recv(1 << 20):
                self.rest += some
            raise EOFError
        except BlockingIOError:
            pass
        finally:
            self.socket.settimeout(LONG)
        at = 0
        while at + 4 <= len(self.rest) and at + (size := struct.unpack_from(">I", self.rest, at)[0]) <= len(self.rest):
            got, at = self.rest[at : at + size], at + size
            code = got[4 * got[4] + 2] if size > FRAME_HEAD else 0
            self.kinds[code] = self.kinds.get(code, 0) + 1
            if code == DISPOSITION and any(outcome in got for outcome in OUTCOMES) and (said := parse(got)):
                first, last, settled = map(said.field, (1, 2, 3))
                self.settled += int(last or first) - int(first) + 1 if settled else 0
        self.rest = self.rest[at:]
        return self.kinds.get(kind, 0)


@pytest.fixture
def loaded(router: RunningRouter, request: pytest.FixtureRequest) -> Iterator[Loaded]:
    with Loaded(router.address, request.node.name) as loaded:
        loaded.load()
        yield loaded


STATES = {"the same state": [received(0)], "two states in turn": [received(0), received(1)]}


@pytest.mark.parametrize("states", STATES.values(), ids=STATES.keys())
def test_states_that_settle_nothing(router: RunningRouter, loaded: Loaded, states: list[bytes]) -> None:
    """Each of 40 DISPOSITIONs says a state of 2500 deliveries; then one settles them, and none of it is lost."""
    with Verdict(router):
        loaded.write(b"".join(disposition(states[i % len(states)]) for i in range(40)) + disposition(ACCEPTED, TRUE))
        until(lambda: loaded.came(DISPOSITION) and loaded.settled == DELIVERIES, "settlement of all messages")


def test_links_begin_behind_states_without_end(router: RunningRouter, loaded: Loaded) -> None:
    """States must leave blocks for what the workers tell the core: of links and connections."""
    with Verdict(router):
        loaded.write(b"".join(disposition(received(i)) for i in range(60)))
        loaded.ask(500, True, "somewhere", "")
        loaded.ask(501, False, "", "somewhere")
        for _ in range(20):
            with Wire(router.address) as other:
                other.attach_receiver("elsewhere", 1)
        assert loaded.came(CLOSE) == 0


LONG_STATE = listed(0x25, listed(0x1D, encode("a:b"), encode("why " * 4000)))


def test_a_long_state_of_all_deliveries(router: RunningRouter, loaded: Loaded) -> None:
    """One copy of it is kept, not one for each, until it settles all."""
    processes = [p for role, p in roles(router.process.pid).items() if role.startswith("worker")]
    before = sum(p.memory_info().rss for p in processes)
    with Verdict(router):
        loaded.write(disposition(LONG_STATE))
        until(lambda: loaded.came(DISPOSITION) >= 1, "the state")
        time.sleep(1)
        assert sum(p.memory_info().rss for p in processes) < before + (24 << 20)
        loaded.write(disposition(LONG_STATE, TRUE))
        until(lambda: loaded.came(DISPOSITION) and loaded.settled == DELIVERIES, "settlement of all messages")
