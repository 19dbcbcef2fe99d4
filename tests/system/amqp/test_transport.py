"""Connections, sessions and their limits (AMQP 1.0 parts 2.2 to 2.6): what each side asks for is kept."""

import socket

import pytest
from proton import Endpoint, Message, symbol

from tests.support.clients.wire import BEGIN, TRANSFER, Wire, frame
from tests.support.peer import ACCEPTED, Net, errors_of, is_closed, is_open
from tests.support.running import Configuration, RunningRouter, address_of, until

SMALLEST = 512  # the smallest maximum of a frame's size that AMQP allows
SESSIONS = 10


def has_ipv6() -> bool:
    """Can this machine listen on its IPv6 loopback address?"""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


LIMITED = f"maxFrameSize: {SMALLEST}\n maxSessions: {SESSIONS}"
IMPATIENT = "idleTimeoutSeconds: 3"
SECTIONS = [f"host: 127.0.0.1\n port: 0\n {LIMITED}", f"host: 127.0.0.1\n port: 0\n {IMPATIENT}"]
SECTIONS += ["host: ::1\n port: 0"] if has_ipv6() else []


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(sections="\n".join(f"listener {{\n {section}\n}}" for section in SECTIONS))


@pytest.fixture
def limited(router: RunningRouter) -> tuple[str, int]:
    """A listener with the smallest frames and few sessions."""
    return address_of(router.urls[1])


@pytest.fixture
def impatient(router: RunningRouter) -> tuple[str, int]:
    """A listener that ends connections after three seconds of silence."""
    return address_of(router.urls[2])


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """An address of the test's own."""
    return f"transport.{request.node.name}"


def exchange(net: Net, sender: tuple[str, int], receiver: tuple[str, int], name: str, size: int) -> None:
    """A message from a client of one listener to a client of another."""
    at, to = net.peer(receiver), net.peer(sender)
    link = at.receiver(name, 1)
    message = Message(body=b"x" * size).encode()
    sent = net.stream(to.ready_sender(name), message)
    got = at.take(link)[0]
    assert got.data == message
    got.settle()
    assert net.settled(sent) == [ACCEPTED]


# ---- connections ----


def test_open_tells_who_the_router_is(net: Net, router: RunningRouter) -> None:
    """Container id, product and version, and that senders without address are served."""
    connection = net.peer().connection
    assert connection.remote_container == router.id
    assert connection.remote_properties is not None
    assert connection.remote_properties[symbol("product")] == "routerd"
    assert connection.remote_properties[symbol("version")]
    assert symbol("ANONYMOUS-RELAY") in list(connection.remote_offered_capabilities or [])


def test_a_client_need_not_use_sasl(net: Net, router: RunningRouter, name: str) -> None:
    """By the engine, and by hand."""
    at, to = net.peer(), net.peer(sasl=False)
    receiver = at.receiver(name, 2)
    sent = net.send(to.ready_sender(name), Message(body="engine"))
    with Wire(router.address) as wire:
        wire.attach_sender(name)
        wire.transfer(0, Message(body="hand").encode(), settled=True)
        arrived = at.take(receiver, 2)
        assert sorted(got.body for got in arrived) == ["engine", "hand"]
    for got in arrived:
        got.settle()
    assert net.settled(sent) == [ACCEPTED]


def test_all_listeners_serve_the_same_addresses(net: Net, router: RunningRouter, name: str) -> None:
    """Who comes through one reaches who came through another."""
    addresses = [address_of(url) for url in router.urls]
    for i, sender in enumerate(addresses):
        for j, receiver in enumerate(addresses):
            exchange(net, sender, receiver, f"{name}.{i}.{j}", 1000)


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback address")
def test_ipv6(net: Net, router: RunningRouter, name: str) -> None:
    """A listener on ::1."""
    host, port = address_of(router.urls[3])
    assert host == "::1"
    exchange(net, (host, port), (host, port), name, 100_000)


def test_connections_are_spread_evenly(net: Net, router: RunningRouter) -> None:
    """When twenty come, and when sixteen leave and twenty others come, whosever they were."""
    until(lambda: router.counted("connections") == 0, "end of earlier connections")
    peers = [net.peer() for _ in range(20)]
    assert_even(router, 20)
    for peer in peers[:16]:
        peer.connection.close()
        net.until(lambda: peer.closed, "CLOSE")  # noqa: B023 - waits here
    until(lambda: router.counted("connections") == 4, "end of connections")
    for _ in range(20):
        net.peer()
    assert_even(router, 24)


def assert_even(router: RunningRouter, total: int) -> None:
    """Each worker has half; while one does not get a CPU the other one takes a few more."""
    shares = [worker["connections"] for worker in router.workers]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 4, shares


# ---- sessions and links ----


def test_many_sessions_with_many_links_on_one_connection(net: Net, name: str) -> None:
    """Each link carries its own messages."""
    peer = net.peer()
    links = []
    for i in range(50):
        session = peer.session()
        addresses = [f"{name}.{i}.{j}" for j in range(10)]
        links += [(a, peer.begin_receiver(a, session), peer.begin_sender(a, session)) for a in addresses]
    for _, receiver, _ in links:
        receiver.flow(1)
    net.until(lambda: all(sender.credit for _, _, sender in links), "credit for all")
    sent = [net.send(sender, Message(body=address)) for address, _, sender in links]
    for address, receiver, _ in links:
        got = peer.take(receiver)[0]
        assert got.body == address
        got.settle()
    assert net.settled(*sent) == [ACCEPTED] * 500


def test_a_session_ends_with_its_links_only(net: Net, router: RunningRouter, name: str) -> None:
    """The other sessions of the connection go on."""
    peer = net.peer()
    session = peer.session()
    peer.receiver(f"{name}.ended", 1, session)
    stays = peer.receiver(f"{name}.stays", 1)
    sender = peer.ready_sender(f"{name}.stays")
    ended = peer.ready_sender(f"{name}.ended", session)
    session.close()
    net.until(lambda: session.state & Endpoint.REMOTE_CLOSED, "END")
    peer.round_trip()
    anonymous = peer.ready_sender(None)
    assert net.settled(net.send(anonymous, Message(address=f"{name}.ended")))
    sent = net.send(sender, Message(body="stays"))
    peer.take(stays)[0].settle()
    assert net.settled(sent) == [ACCEPTED]
    assert is_open(ended) or is_closed(ended)
    assert sum(worker["links"] for worker in router.workers) >= 2


def test_links_come_and_go_with_the_same_name(net: Net, name: str) -> None:
    """A name is free again after the detach; in the other direction it was never taken."""
    peer = net.peer()
    assert peer.default_session is not None
    for turn in range(5):
        link, back = peer.default_session.sender("name"), peer.default_session.receiver("name")
        peer.inboxes["name"] = []
        link.target.address = back.source.address = f"{name}.{turn}"
        link.open()
        back.open()
        back.flow(1)
        net.until(lambda: link.credit, "credit")  # noqa: B023 - waits here
        sent = net.send(link, Message(body=turn))
        got = peer.take(back)[0]
        assert got.body == turn
        got.settle()
        assert net.settled(sent) == [ACCEPTED]
        for one in (link, back):
            peer.close_link(one)
            one.free()


def test_a_detach_without_closing_is_answered_in_kind(net: Net, name: str) -> None:
    """And counts as the end of the link: the router keeps nothing for it."""
    peer = net.peer()
    link = peer.receiver(name)
    link.detach()
    sender = peer.ready_sender(None)
    net.round_trips(peer)
    sent = net.send(sender, Message(address=name))
    assert net.settled(sent) != [ACCEPTED]
    assert not is_closed(link)


# ---- limits ----


def test_limits_are_announced(net: Net, router: RunningRouter, limited: tuple[str, int]) -> None:
    """The defaults, and those of a listener; channel-max counts from 0."""
    usual, small = net.peer().transport, net.peer(limited).transport
    assert (usual.remote_max_frame_size, usual.remote_channel_max) == (16_384, 32_767)
    assert (small.remote_max_frame_size, small.remote_channel_max) == (SMALLEST, SESSIONS - 1)


def test_messages_pass_in_frames_of_any_size(net: Net, router: RunningRouter, limited: tuple[str, int]) -> None:
    """From small to large frames and back, for clients of the smallest and of large ones."""
    for i, (sender, receiver) in enumerate([(limited, router.address), (router.address, limited)]):
        exchange(net, sender, receiver, f"frames.{i}", 100_000)
        at, to = net.peer(receiver, max_frame_size=SMALLEST), net.peer(sender, max_frame_size=1_000_000)
        link = at.receiver(f"frames.limited.{i}", 1)
        sent = net.send(to.ready_sender(f"frames.limited.{i}"), Message(body=b"x" * 100_000))
        got = at.take(link)[0]
        assert got.body == b"x" * 100_000
        got.settle()
        assert net.settled(sent) == [ACCEPTED]


def test_no_frame_is_larger_than_the_client_allows(net: Net, router: RunningRouter, name: str) -> None:
    """Looked at frame by frame."""
    with Wire(router.address, max_frame=SMALLEST) as wire:
        wire.attach_receiver(name, 1)
        net.send(net.peer().ready_sender(name), Message(body=b"x" * 10_000), settled=True)
        net.turn(0.01)
        frames = [wire.expect(TRANSFER)]
        while frames[-1].fields[5:6] == [True]:  # more
            frames.append(wire.expect(TRANSFER))
    assert all(frame.size <= SMALLEST for frame in frames)
    assert len(frames) > 10_000 / SMALLEST


def test_a_frame_larger_than_the_router_allows_ends_the_connection(limited: tuple[str, int]) -> None:
    """With an error that names the limit's kind; nothing else is harmed."""
    with Wire(limited) as wire:
        wire.write(frame(0, b"x" * 2 * SMALLEST))
        assert wire.error()[0] == "amqp:connection:framing-error"


def test_all_sessions_of_channel_max_work_and_no_more(net: Net, limited: tuple[str, int], name: str) -> None:
    """Ten sessions; a BEGIN on an eleventh channel is an error."""
    peer = net.peer(limited)
    sessions = [peer.default_session, *[peer.session() for _ in range(SESSIONS - 1)]]
    links = [peer.receiver(f"{name}.{i}", 1, session) for i, session in enumerate(sessions)]
    assert all(is_open(link) for link in links)
    with Wire(limited) as wire:
        for channel in range(1, SESSIONS):
            wire.begin(channel)
            wire.expect(BEGIN)
        wire.begin(SESSIONS)
        assert wire.error()[0] == "amqp:connection:framing-error"


# ---- silence ----


def test_a_silent_client_is_dropped_and_one_with_heartbeats_is_not(net: Net, impatient: tuple[str, int]) -> None:
    """The router tells why it ends the connection."""
    peer = net.peer(impatient)
    assert peer.transport.remote_idle_timeout == 1.5  # half of what is configured is announced
    with Wire(impatient) as wire:
        assert wire.await_end(net)[0] == "amqp:resource-limit-exceeded"
    peer.round_trip()
    assert errors_of(peer) == []


def test_the_router_sends_heartbeats(net: Net, router: RunningRouter) -> None:
    """To a client that would leave after a short silence."""
    peer = net.peer(idle_timeout=2.0)
    frames = peer.transport.frames_input
    net.until(lambda: peer.transport.frames_input >= frames + 3, "heartbeats")
    assert errors_of(peer) == []
    with Wire(router.address, idle=400) as wire:
        assert [wire.read() for _ in range(3)] == [None] * 3


def test_no_heartbeats_that_nobody_asked_for(net: Net, router: RunningRouter) -> None:
    """A client without an idle timeout hears nothing while there is nothing to say."""
    quiet = net.peer()
    quiet.round_trip()
    frames = quiet.transport.frames_input
    with Wire(router.address, idle=200) as clock:
        for _ in range(5):
            assert clock.read() is None
            net.turn(0)
    assert quiet.transport.frames_input == frames
