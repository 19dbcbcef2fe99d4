"""Links that the worker opens to a peer of few channels or handles (AMQP 1.0 part 2.4.1, 2.5.1)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from proton import Described, uint, ulong, ushort

from bench import contract as n
from shm.contract.payloads import Attach, ConnectionOpened, Error, LinkRefused, OpenLink, Termini, Terminus
from shm.native import ROUTED_SESSIONS as ROUTED
from shm.native import STREAM_SESSIONS as STREAM
from tests.support.beds.dialled import dialled
from tests.support.beds.door import Client, Door
from tests.support.clients.wire import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    END,
    FLOW,
    OPEN,
    SOURCE,
    TARGET,
    begin,
    described,
    frame,
)

HEARTBEAT = frame(0, b"")
LIMIT = "amqp:resource-limit-exceeded"

Ask = Callable[..., None]


@contextmanager
def door(name: str, *terms: object) -> Iterator[Client]:
    """Yield a client of an open connection. ``terms`` are the fields of its OPEN behind the container."""
    stand = Door(name, None)
    client = Client(stand, stand.dial())
    client.write(AMQP_HEADER + frame(0, described(OPEN, "peer", *terms)))
    client.take(8)
    client.frames(OPEN)
    yield client
    client.socket.close()
    stand.end()


def asker(broker: Client) -> Ask:
    """Return what lets the core want a link from a broker that has just connected."""
    (opened,) = broker.stand.hear(ConnectionOpened)

    def ask(request: int, session: int = 5, source: str = "q", **client: Any) -> None:
        ends = opened.connection, opened.generation
        termini = Termini(Terminus(1, source), Terminus(1)) if session >= ROUTED else None
        terms: dict[str, Any] = {"session": session, "termini": termini, **client}
        link = OpenLink(*ends, request, f"l{request}", outgoing=False, source=source, **terms)
        broker.stand.tell(n.C_OPEN_LINK, link)

    return ask


def begun(channel: int, ours: int, handle_most: int | None = None) -> bytes:
    most = None if handle_most is None else uint(handle_most)
    return frame(channel, described(BEGIN, ushort(ours), uint(0), uint(100), uint(100), most))


def attached(name: object, handle: int, channel: int = 0) -> bytes:
    ends = Described(ulong(SOURCE), ["q"]), Described(ulong(TARGET), [])
    return frame(channel, described(ATTACH, name, uint(handle), False, None, None, *ends, None, None, uint(0)))


def refused(broker: Client, *requests: int) -> list[str]:
    """Return why the worker refuses these."""
    found = broker.stand.hear(LinkRefused, len(requests))
    assert [one.request for one in found] == list(requests)
    assert all(isinstance(one.error, Error) and one.error.condition == LIMIT for one in found)
    return [one.error.description for one in found if one.error is not None]


def condition(fields: list[Any]) -> str:
    return str(fields[-1].value[0])


def test_a_link_without_a_handle_is_refused_and_others_go_on() -> None:
    with dialled("handles") as broker:
        ask = asker(broker)
        ask(1)
        ask(2)
        ask(3)
        _, first = broker.frames(BEGIN, ATTACH)
        broker.rest(0.05)
        assert not broker.got, "no handle but the lowest is known to be allowed yet"
        broker.write(begun(0, 0, handle_most=1) + attached(first[0], 0))
        (second,) = broker.frames(ATTACH)
        assert (first[:2], second[:2]) == (["l1", 0], ["l2", 1])
        (why,) = refused(broker, 3)
        assert "broker takes no more than 2 links in a session (handle-max)" in why
        ask(4)
        assert refused(broker, 4) == [why]
        ask(5, session=6)
        broker.frames(BEGIN, ATTACH)
        broker.write(frame(0, described(DETACH, uint(0), True)))
        broker.frames(DETACH)
        ask(6)
        (sixth,) = broker.frames(ATTACH)
        assert sixth[:2] == ["l6", 0]


def test_a_link_that_waits_for_the_peers_begin_goes_with_its_core() -> None:
    with dialled("unbegun") as broker:
        ask = asker(broker)
        ask(1)
        ask(2)
        broker.frames(BEGIN, ATTACH)
        broker.rest(0.02)
        broker.stand.core_dies()
        broker.frames(DETACH)
        ask = asker(broker)
        ask(3)
        broker.frames(BEGIN, ATTACH)
        broker.write(begun(0, 0, handle_most=0))
        broker.frames(END)
        broker.write(begun(1, 1, handle_most=0) + attached("l3", 0, channel=1))
        broker.stand.hear(Attach)


def test_a_link_is_not_taken_for_one_of_its_name_that_has_waited_for_the_peers_begin() -> None:
    """Their core has died; the session has no link meanwhile, and so the next one's ATTACH goes ahead."""
    with dialled("unbegun-name") as broker:
        ask = asker(broker)
        ask(1, ROUTED)
        ask(2, ROUTED)
        broker.frames(BEGIN, ATTACH)
        broker.rest(0.02)
        broker.stand.core_dies()
        broker.frames(DETACH)
        ask = asker(broker)
        ask(2, ROUTED)
        (again,) = broker.frames(ATTACH)
        assert again[:2] == ["l2", 0]
        broker.write(begun(0, 0) + attached("l1", 0) + frame(0, described(DETACH, uint(0), True)) + attached("l2", 0))
        (there,) = broker.stand.hear(Attach)
        broker.stand.work.push(n.pack(type=n.W_FLOW, link=there.link, link_gen=there.generation, credit=5))
        broker.frames(FLOW)


@pytest.mark.parametrize("order", [(5, ROUTED, STREAM), (ROUTED, 5, ROUTED + 1), (STREAM, STREAM + 1, 5)])
def test_links_share_the_session_of_a_peer_that_takes_one(order: tuple[int, ...]) -> None:
    with dialled("one-channel", None, None, ushort(0)) as broker:
        ask = asker(broker)
        ask(1, session=order[0])
        broker.frames(BEGIN, ATTACH)
        broker.write(begun(0, 0))
        for request, session in enumerate(order[1:], 2):
            ask(request, session)
            (attach,) = broker.frames(ATTACH)
            assert attach[:2] == [f"l{request}", request - 1]


def test_a_link_without_a_channel_is_refused_and_others_go_on() -> None:
    """The broker itself has begun the one session that there may be."""
    with dialled("no-channel", None, None, ushort(0)) as broker:
        ask = asker(broker)
        broker.write(begin(0))
        broker.frames(BEGIN)
        ask(1)
        ask(2, ROUTED)
        for why in refused(broker, 1, 2):
            assert "broker takes no more than 1 sessions (channel-max)" in why
        broker.write(frame(0, described(END)))
        broker.frames(END)
        ask(3)
        broker.frames(BEGIN, ATTACH)


def test_link_routes_leave_channels_to_the_router_and_to_the_peer() -> None:
    with dialled("some-channels", None, None, ushort(7)) as broker:
        ask = asker(broker)
        for session in range(12):
            ask(1 + session, ROUTED + session)
        firsts = broker.frames(*[BEGIN] * 6, *[ATTACH] * 6)[6:]
        assert {attach[0] for attach in firsts} == {f"l{request}" for request in range(1, 7)}
        broker.write(b"".join(begun(channel, channel) for channel in range(6)))
        others = broker.frames(*[ATTACH] * 6)
        assert {attach[1] for attach in others} == {1}, "they take turns with the sessions that are there"
        ask(20, STREAM)
        broker.frames(BEGIN, ATTACH)
        broker.write(begin(7))
        broker.frames(BEGIN)


def test_a_client_leaves_as_many_channels_to_others_as_it_has_sessions() -> None:
    """Its further links share its own sessions in turn, and no other client's."""
    with dialled("clients-channels", None, None, ushort(7)) as broker:
        ask = asker(broker)
        for session in range(12):
            ask(1 + session, ROUTED + session, client=1)
        broker.frames(*[BEGIN] * 3, *[ATTACH] * 3)
        broker.write(b"".join(begun(channel, channel) for channel in range(3)))
        assert {attach[1] for attach in broker.frames(*[ATTACH] * 9)} == {1, 2, 3}
        ask(20, ROUTED + 20, client=2)
        broker.frames(BEGIN, ATTACH)
        broker.write(begun(3, 3))
        ask(21, ROUTED + 21, client=2)
        broker.frames(BEGIN, ATTACH)


def test_a_client_with_as_many_sessions_as_it_may_have_uses_all_of_their_handles() -> None:
    """Beyond these its links are refused, although the broker takes another session."""
    with dialled("clients-handles", None, None, ushort(7)) as broker:
        ask = asker(broker)
        for session in range(3):
            ask(1 + session, ROUTED + session, client=1)
            broker.frames(BEGIN, ATTACH)
            broker.write(begun(session, session, handle_most=2 * (2 - session)))
        for request in range(4, 10):
            ask(request, ROUTED + request, client=1)
            broker.frames(ATTACH)
        ask(10, ROUTED + 10, client=1)
        (why,) = refused(broker, 10)
        assert "handle-max" in why
        ask(11, ROUTED + 11, client=2)
        broker.frames(BEGIN, ATTACH)


def test_a_late_end_is_no_session_of_the_clients_next_life() -> None:
    """Its links go, and so do its sessions: 16 are kept, and the broker answers the ENDs of the others later."""
    with dialled("late-ends", None, None, ushort(63)) as broker:
        ask = asker(broker)
        for channel in range(24):  # as many as the client leaves to others
            ask(1 + channel, ROUTED + channel, client=1)
            broker.frames(BEGIN, ATTACH)
            broker.write(begun(channel, channel) + attached(f"l{1 + channel}", 0, channel))
            broker.stand.hear(Attach)
        for channel in range(24):
            broker.write(frame(channel, described(DETACH, uint(0), True)))
        said = [broker.all_until(DETACH) for _ in range(24)]
        ended = sum(code == END for some in said for code, _ in some)
        ended += len(broker.frames(*[END] * (8 - ended)))
        again = 100
        for session in range(24):
            ask(again + session, ROUTED + again + session, client=1)
        broker.frames(*[BEGIN] * 8, *[ATTACH] * 24)
        for channel in range(16, 24):
            broker.write(frame(channel, described(END)))
        ask(200, ROUTED + 200, client=1)
        broker.frames(ATTACH)


@pytest.mark.parametrize("address", [b"q", b"\xff"], ids=["attached", "refused"])
def test_a_peer_without_a_handle_for_our_answer_loses_its_session(address: bytes) -> None:
    """A link that is refused for what is no text is answered like others (AMQP 1.0 part 2.6.3)."""
    with door("answer-handle") as client:
        client.write(frame(0, described(BEGIN, None, uint(0), uint(9), uint(9), uint(0))) + begin(1))
        client.frames(BEGIN, BEGIN)
        client.write(attached("x", 0) + attached("y", 1).replace(b"q", address))
        (ended,) = [fields for code, fields in client.all_until(END) if code == END]
        assert condition(ended) == LIMIT
        client.write(attached("z", 0, channel=1))
        client.stand.hear(Attach)


def test_a_peer_with_many_links_and_no_handle_for_one_more_loses_that_session_alone() -> None:
    """They go one by one before the session does, the one without an answer first."""
    with door("many-handles") as client:
        client.write(frame(0, described(BEGIN, None, uint(0), uint(9), uint(9), uint(599))) + begin(1))
        client.frames(BEGIN, BEGIN)
        for handle in [*range(1, 601), 0]:
            client.write(attached(f"x{handle}", handle))
        (ended,) = [fields for code, fields in client.all_until(END) if code == END]
        assert condition(ended) == LIMIT
        client.write(attached("z", 0, channel=1))
        assert client.stand.hear(Attach, 601)[-1].name == "z"


def test_a_peer_without_a_channel_for_our_answer_loses_its_connection() -> None:
    """The router and the broker begin a session at once, and the broker takes one."""
    with dialled("answer-channel", None, None, ushort(0)) as broker:
        ask = asker(broker)
        ask(1)
        broker.frames(BEGIN, ATTACH)
        broker.write(begin(0))
        (closed,) = [fields for code, fields in broker.all_until(CLOSE) if code == CLOSE]
        assert condition(closed) == LIMIT


def test_a_channel_is_used_again_in_the_write_that_frees_it() -> None:
    with door("again", None, None, ushort(0)) as client:
        client.write(begin(0) + frame(0, described(END)) + begin(0))
        client.frames(BEGIN, END, BEGIN)


LONG = "a" * 16_000
LONG_LINKS = (48 << 20) // 16_140  # for clients; a name and what else an ATTACH has is some 140 octets


def granted(broker: Client, ask: Ask, first: int, most: int, **terms: Any) -> int:
    """Ask for links, numbered from ``first`` on, until one is refused. Return how many were not."""
    for request in range(first, first + most):
        ask(request, **terms)
        broker.write(HEARTBEAT)  # who says nothing for some seconds is sent away
        broker.step()
        if any(isinstance(one, LinkRefused) for one in broker.stand.heard):
            (why,) = refused(broker, request)
            assert "broker gets no more than" in why
            return request - first
    return most


def test_a_client_leaves_as_much_of_a_peers_limits_to_others_as_it_has() -> None:
    """By octets of long addresses; the router itself has what links for clients leave."""
    with dialled("shares") as broker:
        ask = asker(broker)
        first = granted(broker, ask, 1, LONG_LINKS, source=LONG, client=1)
        assert LONG_LINKS * 0.48 < first < LONG_LINKS * 0.52
        assert granted(broker, ask, 5_000, 1, source=LONG, client=1) == 0
        second = granted(broker, ask, 10_000, LONG_LINKS, source=LONG, client=2, session=ROUTED)
        assert LONG_LINKS * 0.11 < second < LONG_LINKS * 0.14, "its address counts in both places"
        assert granted(broker, ask, 20_000, 100, client=3) == 100
        neighbour = granted(broker, ask, 30_000, LONG_LINKS, source=LONG, client=4, neighbour=True)
        assert neighbour > LONG_LINKS * 0.15
        assert granted(broker, ask, 40_000, 200, source=LONG) == 200


def test_what_a_client_has_let_go_is_its_own_again() -> None:
    """Also where it keeps a link meanwhile."""
    with dialled("let-go") as broker:
        ask = asker(broker)
        first = granted(broker, ask, 1, LONG_LINKS, source=LONG, client=1)
        broker.frames(BEGIN, ATTACH)
        broker.write(begun(0, 0) + attached("l1", 0))
        broker.stand.hear(Attach)
        broker.stand.core_dies()
        ask = asker(broker)
        assert granted(broker, ask, 10_000, LONG_LINKS, source=LONG, client=1) == first - 1
