"""Every row of the specification's examples, made of the row before by workers that a router is given.

The workers, addresses, payloads and octets are those of the examples themselves: management makes a row's
workers, and takes them away again. What comes from a cloud comes over the connection of a connector.
"""

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from proton import Endpoint, Message, symbol, ubyte

from routerd.cli.client import Client, Place
from tests.support.clients.routed_messages import message, routes
from tests.support.peer import ACCEPTED, REJECTED, RELEASED, Net, Peer, error_of
from tests.support.running import Configuration, RunningRouter, address_of, until
from tests.support.servers.acceptor import Accepted

FILE = Path(__file__).parents[2] / "support" / "values" / "source_route_vectors.json"
VECTORS: dict[str, Any] = json.loads(FILE.read_text())
CASES = {case["case"].split()[0]: case["steps"] for case in VECTORS["route_cases"]}

D1, D2 = "D1 discovery route=T13=>F3 BOTH", "D2 discovery route=T24=>F4 BOTH"
STRIP = "mode=strip stripCount="
F3, F4 = "F3 static route=D2", "F4 static route=D1"

# Case, row before, who sends, the workers, row after; BOTH: `uplinks` and `allow` of discovery workers.
STEPS: list[tuple[str, int, str, list[str], int]] = [
    *(("S1", n, "client", [f"{at} forward trace=yes"], n + 1) for n, at in ((0, "A1"), (1, "B1"), (2, "C2"))),
    *(("S1", n, "client", [f"{at} forward trace=yes"], n + 1) for n, at in ((4, "C2"), (5, "B1"), (6, "A1"))),
    *(("S1n", n, "client", [f"{at} forward"], n + 1) for n, at in ((0, "A1"), (1, "B1"), (2, "C2"))),
    ("S2", 0, "client", ["B1 wrap route=X3=>U2 format=bare"], 1),
    ("S2", 1, "client", ["X3 forward trace=yes"], 2),
    ("S2", 2, "client", ["U2 unwrap trace=yes format=bare"], 3),
    ("S2", 3, "client", ["C2 forward trace=yes"], 4),
    ("S3", 0, "client", ["B1 extend route=E3=>F4"], 1),
    ("S3", 1, "client", ["E3 forward", "F4 forward"], 2),
    ("S3", 2, "client", ["C2 forward trace=yes"], 3),
    ("S3", 1, "client", ["E3 forward trace=yes", "F4 forward trace=yes"], 4),
    ("S3", 4, "client", ["C2 collapse stripCount=2"], 5),
    ("S3", 4, "client", ["C2 collapse keepScopes=1,2"], 6),
    ("D0", 0, "client", ["T13 forward"], 1),
    ("D0", 1, "client", ["F3 forward"], 2),
    ("D1", 0, "client", [f"{D1} {STRIP}0"], 1),
    ("D1", 1, "client", ["T13 forward"], 2),
    ("D1", 2, "client", [F3], 3),
    ("D1", 3, "cloud", [f"{D2} {STRIP}0"], 4),
    ("D1", 5, "client", [f"{D2} {STRIP}0"], 6),
    ("D1", 6, "client", ["T24 forward", F4], 7),
    ("D1", 7, "cloud", [f"{D1} {STRIP}0"], 8),
    ("D2", 0, "client", [f"{D1} {STRIP}2"], 1),
    ("D2", 2, "cloud", [f"{D2} {STRIP}2"], 3),
    ("D2", 2, "cloud", [f"{D2} mode=strip keepScopes=1,2"], 4),
    ("D2", 2, "cloud", [f"{D2} {STRIP}0"], 5),
    ("D2", 2, "cloud", [f"{D2} {STRIP}3"], 6),
    ("D3", 0, "client", [f"{D1} format=bare"], 1),
    ("D3", 2, "cloud", [f"{D2} format=bare"], 3),
    ("D3", 4, "client", [f"{D2} format=bare"], 5),
    ("D3", 6, "cloud", [f"{D1} format=bare"], 7),
    ("W1", 0, "client", ["F forward"], 1),
    ("W2", 0, "client", ["F forward trace=yes"], 1),
    ("W4", 0, "client", ["F static route=R=>Q"], 1),
    ("W7", 0, "client", ["C1 wrap route=C2i format=bare"], 1),
    ("W7", 1, "client", ["C2i unwrap trace=yes traceAs=C2 format=bare"], 2),
]
REPLIES = [("S1", 3, 4), ("D0", 2, 4), ("D1", 4, 5), ("D3", 3, 4)]
GIVEN = {("D0", 3), ("D2", 2), ("D3", 2), ("D3", 6)}  # what the clouds of the examples have made, or somebody knows
WORKER = "router.config.routeWorker"


def attributes(text: str) -> dict[str, Any]:
    """Of a worker, from `ADDRESS KIND attribute=value …`."""
    both = "uplinks=cloud allow=local,uplink:cloud"
    address, kind, *rest = text.replace("BOTH", both).split()
    made: dict[str, Any] = {"address": address, "kind": kind}
    for one in rest:
        key, _, value = one.partition("=")
        made[key] = True if value == "yes" else int(value) if key == "stripCount" else value
    return made


CONNECTOR = """
connector {{
 name: back
 host: 127.0.0.1
 port: {}
 protocol: ockam
 routeAddress: out
}}
connector {{
 name: cloud
 host: 127.0.0.1
 port: {}
 role: route-container
 idleTimeoutSeconds: 0
}}
autoLink {{
 address: fed
 direction: in
 connection: cloud
 phase: 0
}}
"""


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(
        "workers: 1",
        "name: door\n host: 127.0.0.1\n port: 0\n idleTimeoutSeconds: 0",
        sections="listener {\nname: node\nhost: 127.0.0.1\nport: 0\nprotocol: ockam\nrouteAddress: node\n}\n"
        + "routeWorker {\naddress: wheel\nkind: static\nroute: out=>wheel\nallow: local, uplink:node\n}\n"
        + "".join(
            f"routeWorker {{\naddress: {at}\nkind: {kind}\n}}\n"
            for at, kind in (
                ("plain", "forward"), ("u", "unwrap\nformat: bare"), ("wb", "wrap\nroute: out\nformat: bare"),
                ("pw", "payload-wrap"), ("pu", "payload-unwrap"), ("te", "tee\nroute: copies"),
                ("tr", "transform\nuse: base64:b64encode"), ("spin", "static\nroute: spin"),
            )
        ),
        expected="connector cloud: |auto link ",
    )  # fmt: skip


@pytest.fixture(scope="module")
def net(router: RunningRouter) -> Iterator[Net]:
    """One client of the router, for all tests."""
    with Net(router.address) as net:
        net.peer()
        yield net


@pytest.fixture(scope="module")
def cloud(router: RunningRouter, net: Net) -> Iterator[Accepted]:
    """What the connector leads to."""
    before = router.config.read_text()
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        listening.settimeout(20)
        router.config.write_text(before + CONNECTOR.format(address_of(router.urls[1])[1], listening.getsockname()[1]))
        router.process.send_signal(signal.SIGHUP)
        peer = Accepted(net, listening.accept()[0])
        net.peers.append(peer)
        peer.open()
        peer.default_session = peer.session()
        net.until(lambda: peer.attached, "the auto link")
        peer.answer(next(iter(peer.attached)))
        yield peer
        peer.expect_error = True
        router.config.write_text(before)
        router.process.send_signal(signal.SIGHUP)
        net.until(lambda: peer.connection.state & Endpoint.REMOTE_CLOSED, "the end of the connection")


@pytest.fixture(scope="module")
def client(router: RunningRouter) -> Iterator[Client]:
    with Client(Place(router.url)) as client:
        yield client


@pytest.fixture(scope="module")
def sender(net: Net) -> Any:
    return net.peers[0].ready_sender(None)


@contextmanager
def workers(net: Net, client: Client, sender: Any, texts: list[str]) -> Iterator[None]:
    """These are there; a message that has passed too many is refused by a worker, and else leads nowhere."""
    names = [attributes(text)["address"] for text in texts]

    def found() -> list[int]:
        tired = message([names[-1]])
        tired.annotations[symbol("x-opt-route.hops")] = ubyte(64)
        return net.settled(net.send(sender, tired))

    for text in texts:
        client.call("CREATE", attributes(text), type=WORKER)
    until(lambda: found() == [REJECTED], f"workers {texts}")
    yield
    for name in names:
        client.call("DELETE", type=WORKER, identity=f"routeWorker/{name}")
    until(lambda: found() == [RELEASED], f"the end of workers {texts}")


@pytest.mark.parametrize("step", STEPS, ids=[f"{c}-{b}-{a}" for c, b, _, _, a in STEPS])
def test_a_row_of_the_specification(
    net: Net, cloud: Accepted, client: Client, sender: Any, step: tuple[str, int, str, list[str], int]
) -> None:
    """Both routes, and the payload octet for octet: a wrapped one is the BARE message of the example."""
    case, before, source, texts, after = step
    given, expected = CASES[case][before], CASES[case][after]
    made = message(given["onward"], given["return"])
    made.body = bytes.fromhex(given["payload_hex"])
    with workers(net, client, sender, texts):
        peer = net.peers[0]
        receiver = peer.receiver(expected["onward"][0], credit=1)
        from_cloud = cloud.ready_sender(None) if source == "cloud" else None
        delivery = net.send(from_cloud or sender, made)
        (arrived,) = peer.take(receiver)
        arrived.settle()
        assert net.settled(delivery) == [ACCEPTED]
        for link in (receiver, from_cloud):
            if link is not None:
                link.close()
        peer.round_trip()
    assert routes(arrived.message) == (expected["onward"], expected["return"])
    assert bytes(arrived.message.body).hex() == expected["payload_hex"]


def test_every_row_is_made_or_given() -> None:
    """A reply is made by a client: its onward route is the return route that has come."""
    rows = {(case, n) for case, steps in CASES.items() for n in range(len(steps))}
    made = {(case, after) for case, _, _, _, after in STEPS} | {(case, after) for case, _, after in REPLIES}
    assert rows - made - {(case, 0) for case in CASES} == GIVEN
    for case, came, reply in REPLIES:
        assert CASES[case][reply]["onward"] in (CASES[case][came]["return"], ["A1"])


# ---- bad input ----

LONG = b"x" * (3 << 20)
HELD = "it has more than 1048576 octets, and must be held whole here; 1048576 are allowed"
WRONG = "the encoding is wrong"
# What, onward route, body, the description's beginning, the condition and the counter.
BAD = [
    ("empty", [], "", "the onward route is empty", "invalid-field", "route"),
    ("cut", ["u"], "01010002423101000241310568656c6c", f"u: {WRONG}: it is cut", "decode-error", "decode"),
    ("long number", ["u"], "0181000002423101000241310568656c6c6f",
     f"u: {WRONG}: a number is not written in as few", "decode-error", "decode"),
    ("type 300", ["u"], "0101ac02017a0000", f"u: {WRONG}: an address type is", "decode-error", "decode"),
    ("2^63", ["u"], "0180808080808080808001", "u: a route is too long", "resource-limit-exceeded", "length"),
    ("tail", ["u"], "01010002423101000241310568656c6c6f00", f"u: {WRONG}: octets", "decode-error", "decode"),
    ("key twice", ["pu", "x"], "020161000161000170", f"pu: {WRONG}: a map has", "decode-error", "decode"),
    ("long for BARE", ["wb", "x"], LONG, f"wb: {HELD}", "resource-limit-exceeded", "size"),
    ("long for a map", ["pw", "x"], LONG, f"pw: {HELD}", "resource-limit-exceeded", "size"),
    ("long for a transform", ["tr", "x"], LONG, f"tr: {HELD}", "resource-limit-exceeded", "size"),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=[one[0] for one in BAD])
def test_bad_input_is_refused_by_name(router: RunningRouter, net: Net, sender: Any, bad: Any) -> None:
    """And counted, and nothing else is disturbed: not even the link that it came by."""
    _, onward, body, text, condition, counter = bad
    made = message(onward, ["me"])
    made.body = bytes.fromhex(body) if isinstance(body, str) else body
    before = router.counted(f"route_refused_{counter}")
    delivery = net.stream(sender, made.encode())
    assert net.settled(delivery) == [REJECTED]
    found, description = error_of(delivery)
    assert (found, (description or "")[: len(text)]) == (f"amqp:{condition}", text)
    assert router.counted(f"route_refused_{counter}") == before + 1
    passes(net, sender)


def passes(net: Net, sender: Any) -> None:
    peer = net.peers[0]
    receiver = peer.receiver("well", credit=1)
    delivery = net.send(sender, message(["plain", "well"], ["me"]))
    (arrived,) = peer.take(receiver)
    arrived.settle()
    assert net.settled(delivery) == [ACCEPTED]
    peer.close_link(receiver)


def test_a_route_to_nowhere_is_released_and_counted(router: RunningRouter, net: Net, sender: Any) -> None:
    """AMQP's outcome for what found nobody: somebody may be there the next time."""
    before = router.core["released"]
    for onward in (["plain", "nowhere"], ["nowhere", "plain"]):
        assert net.settled(net.send(sender, message(onward, ["me"]))) == [RELEASED]
    until(lambda: router.core["released"] == before + 2, "the count")
    passes(net, sender)


def test_loops_disturb_nobody(router: RunningRouter, net: Net, sender: Any) -> None:
    """Many messages in a loop are cut, each at the limit, and others pass between them."""
    before = router.counted("route_refused_hops"), router.counted("route_steps")
    peer = net.peers[0]
    receiver = peer.receiver("between", credit=100)
    loops, others = [], []
    for _ in range(100):
        loops.append(net.send(sender, message(["spin", "x"], ["me"])))
        others.append(net.send(sender, message(["plain", "between"], ["me"])))
    for arrived in peer.take(receiver, 100):
        arrived.settle()
    assert net.settled(*others) == [ACCEPTED] * 100
    assert net.settled(*loops) == [REJECTED] * 100
    assert {error_of(one) for one in loops} == {
        ("amqp:resource-limit-exceeded", "spin: the message has passed 64 workers; 64 are allowed")
    }
    assert router.counted("route_refused_hops") == before[0] + 100
    assert router.counted("route_steps") == before[1] + 100 * 65 + 100
    peer.close_link(receiver)


def test_a_loop_through_ockam_nodes_is_cut(router: RunningRouter, net: Net, cloud: Accepted, sender: Any) -> None:
    """Where nothing counts workers each crossing leaves an address: the return route ends it."""
    names = "route_refused_length", "ockam_refused", "ockam_frames_in"
    before = [router.counted(name) for name in names]
    net.peers[0].ready_sender("out").close()
    assert net.settled(net.send(sender, message(["wheel", "x"], ["me"]))) == [ACCEPTED]
    until(lambda: router.counted(names[0]) > before[0], "the end")
    passes(net, sender)
    assert [router.counted(name) - was for name, was in zip(names, before, strict=True)] == [1, 1, 64]


def test_a_long_message_passes_a_tee_without_a_copy(router: RunningRouter, net: Net, sender: Any) -> None:
    """Which is counted."""
    peer = net.peers[0]
    before = router.counted("route_copies_lost")
    receiver, copies = peer.receiver("far", credit=1), peer.receiver("copies", credit=1)
    made = message(["te", "far"], ["me"])
    made.body = LONG
    delivery = net.stream(sender, made.encode())
    (arrived,) = peer.take(receiver)
    arrived.settle()
    assert net.settled(delivery) == [ACCEPTED]
    assert arrived.body == LONG
    assert router.counted("route_copies_lost") == before + 1
    assert peer.inbox(copies) == []
    for link in (receiver, copies):
        peer.close_link(link)


# ---- auto links ----


def test_what_an_auto_link_brings_passes_a_worker(net: Net, cloud: Accepted, client: Client, sender: Any) -> None:
    """One of the link's own address, if it allows the connector; without one it goes to that address."""
    peer: Peer = net.peers[0]
    link: Any = next(iter(cloud.attached.values()))
    plainly = peer.receiver("fed", credit=1)
    net.until(lambda: link.credit > 0, "credit")
    delivery = net.send(link, Message(body=b"one", inferred=True))
    (arrived,) = peer.take(plainly)
    arrived.settle()
    assert net.settled(delivery) == [ACCEPTED]
    peer.close_link(plainly)
    receiver = peer.receiver("kitchen", credit=50)

    def ends(expected: int) -> bool:
        """Whether a further message does; the first may come before its process knows of the worker."""
        delivery = net.send(link, message(None, ["far"]))
        net.until(lambda: delivery.settled or peer.inbox(receiver), "its end")
        for arrived in peer.take(receiver, len(peer.inbox(receiver))):
            arrived.settle()
            assert routes(arrived.message) == (["kitchen"], ["far"])
        return net.settled(delivery) == [expected]

    for allow, expected in (("local,uplink:cloud", ACCEPTED), ("local", REJECTED)):
        with workers(net, client, sender, [f"fed static route=kitchen allow={allow}"]):
            net.until(lambda: link.credit > 0, "credit")
            until(partial(ends, expected), "the worker")
    peer.close_link(receiver)
