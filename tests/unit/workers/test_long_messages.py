"""Messages that the worker has to have whole, or nearly, before it tells the core of them."""

import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest
from proton import Described, symbol, uint, ulong

from bench import contract as n
from shm.contract.payloads import Attach, Attached
from shm.contract.source_routes import RouteWorkerSetup, SourceRoutesSetup, Stop
from tests.support.beds.door import Client, Door
from tests.support.clients.wire import (
    AMQP_HEADER,
    ATTACH,
    DISPOSITION,
    FLOW,
    OPEN,
    SOURCE,
    TARGET,
    TRANSFER,
    begin,
    described,
    encode,
    frame,
)

ARENA = 4  # MiB: the least that can be configured
SENDERS = 8
SIZE = 600_000
LINKS = 12  # on each of which a message begins
BEGUN = 3  # pieces of it: more than each message is sure of
MOST = 1 << 20  # octets of a message of which a route worker has found no payload
LANE_REJECTED = 0x25
PIECE = 15_000  # octets of a frame's payload
TURNS = 20_000


class Core(Door):
    """Its core accepts each message as soon as it is complete, and gives its blocks back."""

    def __init__(self, arena: int) -> None:
        super().__init__("long", None, arena=arena)
        self.lengths: list[int] = []
        self.begun: list[int] = []  # octets of a message when the core hears of it
        self.blocks: dict[int, int] = {}

    def _hear(self, action: dict[str, int]) -> None:
        if action["type"] == n.A_DELIVER:
            self.blocks[action["peer"]] = action["block"]
            self.begun.append(action["length"])
        if action["type"] in (n.A_DELIVER, n.A_CONTINUE) and action["flags"] & n.F_COMPLETE:
            self.lengths.append(action["length"])
            link = {"link": action["link"], "link_gen": action["link_gen"]}
            done = {"delivery": action["peer"], "peer": 1, "state": n.S_ACCEPTED, "block": self.blocks[action["peer"]]}
            self.work.push(n.pack(type=n.W_UPDATE, flags=n.F_IN | n.F_SETTLED | n.F_RELEASE, credit=1, **done, **link))
        super()._hear(action)


@pytest.fixture
def core(request: pytest.FixtureRequest) -> Iterator[Core]:
    core = Core(getattr(request, "param", ARENA))
    copy = [Stop(0, b"copy", "copy")]
    workers = [
        RouteWorkerSetup("tee", "tee", Stop(0, b"tee", "tee"), route=copy),
        RouteWorkerSetup("unwrap", "unwrap", Stop(0, b"unwrap", "unwrap")),
    ]
    core.handler.senders.configure(SourceRoutesSetup(on=True, workers=workers))
    yield core
    core.end()


def sender(core: Core, target: str, links: int = 1) -> Client:
    """A client with so many links, each with credit."""
    client = Client(core, core.dial())
    ends = Described(ulong(SOURCE), ["x"]), Described(ulong(TARGET), [target])
    client.write(AMQP_HEADER + frame(0, described(OPEN, "peer")) + begin(0))
    client.take(len(AMQP_HEADER))
    for i in range(links):
        client.write(frame(0, described(ATTACH, f"s{i}", uint(i), False, None, None, *ends, None, None, uint(0))))
        (asked,) = core.hear(Attach)
        core.tell(n.C_ATTACHED, Attached(asked.link, asked.generation))
        core.work.push(n.pack(type=n.W_FLOW, link=asked.link, link_gen=asked.generation, credit=5))
        client.all_until(FLOW)
    return client


def binary(size: int) -> bytes:
    return b"\xb0" + struct.pack(">I", size) + b"x" * size


def message(target: str) -> bytes:
    """A long body for a tee; or else long message annotations."""
    if target == "tee":
        return (
            encode(Described(ulong(0x72), {symbol("x-opt-route.onward"): ["tee", "end"]}))
            + b"\0\x53\x75"
            + binary(SIZE)
        )
    return encode(Described(ulong(0x72), {symbol("x-opt-long"): b"x" * SIZE})) + b"\0\x53\x75" + binary(1)


def frames(octets: bytes, link: int = 0) -> list[bytes]:
    """A session's delivery of that number, on the link of that handle."""
    pieces = [octets[i : i + PIECE] for i in range(0, len(octets), PIECE)]
    first, rest = (uint(link), b"t", uint(0), False), (None,) * 4
    return [
        frame(0, described(TRANSFER, uint(link), *(rest if i else first), i + 1 < len(pieces)), piece)
        for i, piece in enumerate(pieces)
    ]


@pytest.mark.parametrize(("target", "copies"), [("tee", 2), ("a", 1)])
def test_they_take_turns(core: Core, target: str, copies: int) -> None:
    """Senders that begin together have more to say than there are blocks; each is delivered, and none is refused."""
    clients = [sender(core, target) for _ in range(SENDERS)]
    said = dict.fromkeys(clients, b"".join(frames(message(target))))
    for _ in range(TURNS):
        for client in clients:
            with suppress(BlockingIOError):
                said[client] = said[client][client.socket.send(said[client][:PIECE]) :]
            client.step()
        if len(core.lengths) == copies * SENDERS:
            break
    assert len(core.lengths) == copies * SENDERS, f"{len(core.lengths)} messages: the senders wait for each other"
    assert min(core.lengths) > SIZE
    for client in clients:
        client.socket.close()


@pytest.mark.parametrize("core", [32], indirect=True)
def test_a_connection_leaves_some_to_others(core: Core) -> None:
    """One client begins a message on each of many links, and ends none; another client's messages come through."""
    hog, other = sender(core, "tee", links=LINKS), sender(core, "tee")
    for link in range(LINKS):
        for piece in frames(message("tee"), link)[:BEGUN]:
            hog.write(piece)
    other.write(*frames(message("tee")))
    core.until(lambda: len(core.lengths) == 2, "the message and its copy")
    hog.socket.close()
    other.socket.close()


PROMISED = 0x7FFFFF00  # octets of application properties
BEGINNING = b"\0\x53\x74\xd1" + struct.pack(">II", PROMISED, 2) + b"\xa1\1k\xb0" + struct.pack(">I", PROMISED - 99)
ENDLESS = {  # what a message begins with, and what then comes again and again
    "properties": (BEGINNING, b"x"),
    "sections": (b"", b"\0\x53\x75\xa0\0"),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_message_to_open_has_its_payload_within_bounds(core: Core, kind: str) -> None:
    """Else it is refused: with properties that never end, or with sections without data."""
    client = sender(core, "unwrap")
    first, again = ENDLESS[kind]
    for piece in frames(first + again * ((MOST + 2 * PIECE) // len(again))):
        client.write(piece)
    (said,) = [fields for code, fields in client.all_until(DISPOSITION) if code == DISPOSITION]
    assert said[4].descriptor == LANE_REJECTED
    assert "1048576 are allowed" in said[4].value[0].value[1]
    assert not core.lengths
    client.socket.close()


def test_who_ends_no_message_gives_its_turn_to_others(core: Core) -> None:
    """Blocks are there for one such message at a time. It is refused when another one has waited for a while."""
    hog, other = sender(core, "a"), sender(core, "a")
    hog.write(*frames(message("a"))[:BEGUN])
    other.write(*frames(message("a")))
    core.until(lambda: len(core.lengths) == 1, "the message that waits")
    hog.write(*frames(message("a"))[BEGUN:])
    said = hog.all_until(DISPOSITION)[-1][1]
    assert said[4].descriptor == LANE_REJECTED
    assert "amqp:resource-limit-exceeded" in str(said[4])
    hog.socket.close()
    other.socket.close()


KEYS_WITHIN = 16 << 10  # octets in which the core looks for a route key


@pytest.mark.parametrize("size", [99, KEYS_WITHIN - 99, KEYS_WITHIN + 99])
def test_the_core_hears_of_a_message_with_its_route_key(core: Core, size: int) -> None:
    """Whatever its link leads to may lead to a route table; but no message waits longer than the core looks."""
    client = sender(core, "a", links=2)
    properties, body = encode(Described(ulong(0x74), {"x": b"x" * size, "rmr.mt": 1000})), b"\0\x53\x75" + binary(1)
    there = properties[:-9]
    for at in range(0, len(there), PIECE):
        fields = (None,) * 4 if at else (uint(0), b"a", uint(0), False)
        client.write(frame(0, described(TRANSFER, uint(0), *fields, True), there[at : at + PIECE]))
    client.write(frame(0, described(TRANSFER, uint(1), uint(1), b"b", uint(0), False), body))
    client.write(frame(0, described(TRANSFER, uint(0)), properties[-9:] + body))
    core.until(lambda: len(core.lengths) == 2, "both messages")
    whole = len(properties + body)
    assert core.lengths == [len(body), whole]
    assert core.begun == ([len(body), whole] if len(there) < KEYS_WITHIN else [len(there), len(body)])
    client.socket.close()
