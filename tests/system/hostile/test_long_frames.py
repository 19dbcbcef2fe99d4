"""Ockam nodes that stop in the middle of long frames, or never read those that they get.

A worker holds as much of all of them as it has memory for, and who goes on with its frames has its turn.
"""

import re
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from tests.model.ockam_framing import TODAY
from tests.support.clients.frame_client import FrameClient, transfer
from tests.support.clients.ockam_node import Node
from tests.support.clients.octets import ACCEPTED, REJECTED, Symbol, encode
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import MIB, Verdict
from tests.support.running import RunningRouter, roles, until

NODES = 36
LONG = 14 * MIB  # octets of a frame: those of all nodes are several times what is held
HELD = 128 * MIB  # by each worker, for long frames
MORE = 80 * MIB  # that a worker needs besides: the window of the session that sends, and a frame that is copied
ENDLESS = 28  # messages that never end: a worker with a third of them has more than may be gathered there at once
QUIET = 1.0  # seconds in which the router reads nothing more of these nodes
PIECE = 16_000


def workers(router: RunningRouter) -> dict[str, int]:
    """Octets that each worker shares with nobody."""
    found = roles(router.process.pid)
    return {role: one.memory_full_info().uss for role, one in found.items() if role.startswith("worker")}


def assert_held(router: RunningRouter, before: dict[str, int]) -> None:
    grown = {role: size - before[role] for role, size in workers(router).items()}
    assert all(size < HELD + MORE for size in grown.values()), grown


def pour(clients: list[socket.socket], octets: bytes) -> None:
    """As much of the octets to each as the router reads."""
    left = {client: memoryview(octets) for client in clients}
    for client in clients:
        client.setblocking(False)
    while left and (writable := select.select([], list(left), [], QUIET)[1]):
        for client in writable:
            with suppress(BlockingIOError):
                left[client] = left[client][client.send(left[client][: 1 << 18]) :]
            if not left[client]:
                del left[client]


def test_nodes_that_stop_in_their_frames(attacked: RunningRouter, target: Target) -> None:
    """Another node's long frame arrives all the same."""
    before = workers(attacked)
    with Verdict(attacked), ExitStack() as stack:
        nodes = [stack.enter_context(socket.create_connection(("127.0.0.1", target.ockam))) for _ in range(NODES)]
        pour(nodes, TODAY.preamble + (LONG + 1).to_bytes(4, "big") + bytes(LONG))
        assert_held(attacked, before)
        reader = stack.enter_context(FrameClient(("127.0.0.1", target.amqp), "reader"))
        reader.begin()
        reader.receiver("today.q", credit=1)
        node = stack.enter_context(Node.to(("127.0.0.1", target.ockam), TODAY))
        node.send("today.q", payload=b"x" * LONG)
        assert reader.take(1)[0].payload.endswith(b"x" * LONG)
        assert_held(attacked, before)


@contextmanager
def deaf(target: Target, router: RunningRouter) -> Iterator[list[str]]:
    """Nodes that read nothing, by their addresses."""
    with ExitStack() as stack:
        log = len(router.log)
        for _ in range(NODES):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", target.ockam))
            client.sendall(TODAY.preamble)
        until(lambda: router.log[log:].count("Ockam, address") == NODES, "a line for each node")
        yield re.findall(r"Ockam, address (\S+)", router.log[log:])


def long_message(address: str, payload: bytes, link: int = 0) -> list[bytes]:
    """Frames of a message along a route to the node's address, as the delivery of that number."""
    route = b"\0\x53\x72" + encode({Symbol("x-opt-route.onward"): [address, "x"]})
    octets = route + b"\0\x53\x75\xb0" + len(payload).to_bytes(4, "big") + payload
    places = range(0, len(octets), PIECE)
    return [
        transfer(None if at else link, octets[at : at + PIECE], handle=link, more=at + PIECE < len(octets))
        for at in places
    ]


def sending(target: Target, addresses: list[str], stack: ExitStack) -> FrameClient:
    client = stack.enter_context(FrameClient(("127.0.0.1", target.amqp), f"to-{addresses[0]}"))
    client.begin()
    for link, address in enumerate(addresses):
        client.sender(address, link)
    return client


def ended(sender: FrameClient, link: int, address: str) -> int:
    """Write the end of a long message, and return its outcome."""
    sender.write(long_message(address, bytes(MIB), link)[-1])
    return int(sender.settled(link, link)[0].descriptor)


def test_nodes_that_take_no_frames(attacked: RunningRouter, target: Target) -> None:
    """Another node gets its long frame, and its sender learns so."""
    before, payload = workers(attacked), bytes(LONG)
    with Verdict(attacked), ExitStack() as stack:
        addresses = stack.enter_context(deaf(target, attacked))
        sender = sending(target, addresses, stack)
        for link, address in enumerate(addresses):
            pour([sender.socket], b"".join(long_message(address, payload, link)))
        assert_held(attacked, before)
        log = len(attacked.log)
        node = stack.enter_context(Node.to(("127.0.0.1", target.ockam), TODAY))
        until(lambda: "Ockam, address" in attacked.log[log:], "the node's address")
        address = re.findall(r"Ockam, address (\S+)", attacked.log[log:])[0]
        sender = sending(target, [address], stack)
        sender.write(*long_message(address, payload))
        assert node.receive().payload == payload
        assert sender.settled(0, 0)[0].descriptor == ACCEPTED
        assert_held(attacked, before)


def test_messages_to_nodes_that_never_end(attacked: RunningRouter, target: Target) -> None:
    """They are rejected while others wait, and these go on."""
    with Verdict(attacked), ExitStack() as stack:
        addresses = stack.enter_context(deaf(target, attacked))
        sender = sending(target, addresses[:ENDLESS], stack)
        for link, address in enumerate(addresses[:ENDLESS]):
            sender.write(*long_message(address, bytes(MIB), link)[:-1])
        other = sending(target, addresses[-1:], stack)
        other.write(*long_message(addresses[-1], bytes(MIB)))
        assert other.settled(0, 0)[0].descriptor == ACCEPTED
        outcomes = (ended(sender, link, address) for link, address in enumerate(addresses[:ENDLESS]))
        assert REJECTED in outcomes, "those of the other's worker, of which there are two"
