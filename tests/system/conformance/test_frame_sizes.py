"""No frame is larger than its receiver takes, whoever chose what is in it (AMQP 1.0 parts 2.6.3, 2.7 and 2.8)."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.beds.conformance import SMALLEST, Connect
from tests.support.beds.queue_routes import queue_routes
from tests.support.clients.frame_broker import FrameBroker
from tests.support.clients.frame_client import MESSAGE, FrameClient, flow, transfer
from tests.support.clients.octets import (
    AMQP_HEADER,
    ATTACH,
    DETACH,
    END,
    ERROR,
    FLOW,
    SOURCE,
    TARGET,
    Described,
    Encoded,
    Frame,
    Symbol,
    Uint,
    Ulong,
    said,
)
from tests.support.running import Configuration, RunningRouter, address_of, until

TOO_SMALL = "amqp:frame-size-too-small"
TOO_MUCH = "amqp:resource-limit-exceeded"
WIDE = 4_000_000  # the largest frame of two listeners
SAID = "s" * 700  # by the router's OPEN on one of them
TWO = Encoded(b"\xe0\x0f\x02\xa3\x05queue\x06shared")  # an array of symbols
BOUND = 100  # octets that the router's idea of an ATTACH may exceed its size by


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    """The listeners: for clients and a broker, and the same with long frames."""
    common = f"listener {{\n host: 127.0.0.1\n port: 0\n maxFrameSize: {WIDE}\n"
    wide = f'{common} openProperties: {{"said": "{SAID}"}}\n}}\n{common} role: route-container\n}}\n'
    usual = queue_routes("broker", "workers: 2")
    return Configuration(router=usual.router, sections=usual.sections.replace("linkRoute", f"{wide}linkRoute", 1))


@pytest.fixture
def alone(router: RunningRouter) -> None:
    """Nobody's route leads to another test's broker any more."""
    until(lambda: router.core["connections_admitted"] <= 2, "end of all but the bystander's connections")


@pytest.fixture
def broker(router: RunningRouter, alone: None) -> Iterator[FrameBroker]:
    with FrameBroker(address_of(router.urls[1]), "broker") as broker:
        broker.round_trip(channel=100)
        yield broker


@pytest.fixture
def narrow(router: RunningRouter, alone: None) -> Iterator[FrameBroker]:
    """A broker with frames of the least size."""
    with FrameBroker(address_of(router.urls[1]), "broker", max_frame=SMALLEST) as broker:
        broker.round_trip(channel=100)
        yield broker


@pytest.fixture
def wide(router: RunningRouter, alone: None) -> Iterator[FrameClient]:
    """A client whose frames may be long, and whose name, which a broker gets with its links' names, is."""
    with FrameClient(address_of(router.urls[2]), "c" * 5000, max_frame=WIDE) as client:
        client.begin()
        yield client


def filtered(address: str, octets: int) -> dict[str, Any]:
    """A source with a filter of so many octets."""
    far = [address, None, None, None, False, None, None, {Symbol("f"): "x" * octets}]
    return {"source": Described(Ulong(SOURCE), far), "target": Described(Ulong(TARGET), [])}


def largest(*clients: FrameClient) -> int:
    return max((got.size for client in clients for got in client.passed), default=0)


def refused(client: FrameClient, handle: int) -> tuple[Frame, Any]:
    """The answer to an ATTACH that the router refuses, and the error of the DETACH behind it."""
    got = client.attached(handle)
    far = got["target"] if got["receiver"] else got["source"]
    assert far is None or far.value[0] is None
    detach = client.expect(DETACH, 0, handle=got["handle"])
    assert detach["closed"]
    client.passed += [got, detach]
    return got, detach["error"].value


# ---- ATTACH ----


@pytest.mark.parametrize("receiver", [True, False], ids=["receiver", "sender"])
@pytest.mark.parametrize("limit", [SMALLEST, 700, 4096])
def test_an_answer_that_does_not_fit_refuses_its_link(connect: Connect, name: str, limit: int, receiver: bool) -> None:
    """2.7.1: each address up to what fits has its link; a longer one is refused, and its session goes on."""
    client = connect(max_frame=limit)
    sizes: dict[bool, list[int]] = {True: [], False: []}
    for handle, size in enumerate(range(limit - 250, limit + 10, 13)):
        client.write(client.attaching(f"{name}.".ljust(size, "a"), handle, receiver))
        got = client.attached(handle)
        assert got.size <= limit
        far = got["source" if receiver else "target"]
        fits = bool(far and far.value[0])
        sizes[fits].append(size)
        if not fits:
            error = client.expect(DETACH, 0, handle=got["handle"])["error"].value
            assert error[0] == TOO_SMALL
            assert f"your max-frame-size is {limit}" in error[1]
        client.write(said(DETACH, 0, handle=handle, closed=True))
        if fits:
            client.expect(DETACH, 0, handle=got["handle"])
    assert max(sizes[True]) < min(sizes[False])
    assert min(sizes[False]) > limit - 2 * BOUND
    assert largest(client) <= limit
    client.receiver(name, 50)


def test_the_largest_answer_is_known_in_advance(connect: Connect, name: str) -> None:
    """2.7.1: with all that an ATTACH can say; what is refused has too many octets, or nearly."""
    limit = 1200
    client = connect(max_frame=limit)
    seen = set()
    for handle in range(60):
        spare = 26 * (handle % 30)
        terms = [
            f"{name}.".ljust(150, "a"), Uint(2), Symbol("connection-close"), Uint(70_000), False, None,
            Symbol("copy"), {Symbol("f"): "x" * spare}, None, Symbol("amqp:accepted:list"), TWO,
        ]  # fmt: skip
        near = [
            None,
            Uint(1),
            Symbol("link-detach"),
            Uint(70_000),
            False,
            {Symbol("p"): "y" * spare if handle > 29 else ""},
        ]
        link = {"name": f"link-0-{handle}".ljust(40 + handle), "snd_mode": 1, "rcv_mode": 1}
        ends = {"source": Described(Ulong(SOURCE), terms), "target": Described(Ulong(TARGET), near)}
        client.write(client.attaching(None, handle, True, **link, **ends))
        got = client.expect(ATTACH, 0, name=link["name"])
        assert got.size <= limit
        seen.add(bool(got["source"] and got["source"].value[0]))
        client.write(said(DETACH, 0, handle=handle, closed=True))
        client.expect(DETACH, 0, handle=got["handle"])
    assert seen == {True, False}
    assert largest(client) <= limit


def test_a_name_that_no_answer_can_repeat_ends_its_session(connect: Connect, name: str) -> None:
    """2.7.1: another session of the connection goes on."""
    client = connect(2, max_frame=SMALLEST)
    client.receiver(name, channel=1)
    client.write(client.attaching(name, 0, True, name="n" * 400))
    assert client.expect(ATTACH, 0, name="n" * 400).size <= SMALLEST
    client.write(client.attaching(name, 1, True, name="n" * 500))
    error = client.expect(END, 0)["error"].value
    assert error[0] == TOO_SMALL
    assert "name is too long" in error[1]
    client.receiver(f"{name}.b", 1, channel=1)


def test_an_attach_that_the_broker_cannot_take_is_refused(connect: Connect, narrow: FrameBroker) -> None:
    """2.7.1: the broker hears nothing of it, and another client's link comes and carries messages."""
    other = connect()
    other.write(other.attaching("queue.a", 0, False))
    there = narrow.answer(5)
    other.attached(0)
    narrow.write(flow(there.channel, handle=5, count=0, credit=9))
    other.expect(FLOW, 0, credit=9)
    client = connect()
    client.write(client.attaching("queue.b", 0, True, **filtered("queue.b", 2000)))
    _, error = refused(client, 0)
    assert error[0] == TOO_SMALL
    assert f"have {SMALLEST} at most" in error[1]
    other.write(transfer(0))
    assert narrow.take(1, 5, there.channel)[0].payload == MESSAGE
    client.write(client.attaching("queue.b", 1, True))
    assert narrow.answer(6)["name"].startswith("link-0-1@")
    client.attached(1)
    assert largest(narrow) <= SMALLEST
    assert not [got for got in narrow.passed if got.code in (ATTACH, DETACH)]


def test_an_answer_of_the_broker_that_the_client_cannot_take(connect: Connect, broker: FrameBroker) -> None:
    """2.7.1: both learn why, and the broker's connection goes on."""
    client = connect(max_frame=SMALLEST)
    client.write(client.attaching("queue.a", 0, False))
    there = broker.answer(5, properties={Symbol("p"): "v" * 8000})
    _, error = refused(client, 0)
    assert error[0] == TOO_SMALL
    detach = broker.expect(DETACH, there.channel, handle=there["handle"])
    assert detach["error"].value[0] == TOO_SMALL
    broker.write(said(DETACH, there.channel, handle=5, closed=True))
    assert largest(client) <= SMALLEST
    client.write(client.attaching("queue.b", 1, False))
    broker.answer(6)
    client.attached(1)


# ---- DETACH, END and OPEN ----


@pytest.mark.parametrize("limit", [SMALLEST, SMALLEST + 1, 600, 20_000])
@pytest.mark.parametrize("letter", ["d", "é", "語", "𝄞"])
def test_a_description_that_does_not_fit_is_shortened(
    connect: Connect, broker: FrameBroker, letter: str, limit: int
) -> None:
    """2.7.7: between two characters; its condition stays."""
    client = connect(max_frame=limit)
    client.write(client.attaching("queue.a", 0, True))
    there = broker.answer(5, count=0)
    client.attached(0)
    text = "x" + letter * (9000 // len(letter.encode()))
    error = Described(Ulong(ERROR), [Symbol("app:no"), text, {Symbol("info"): "i" * 3000}])
    broker.write(said(DETACH, there.channel, handle=5, closed=True, error=error))
    got = client.expect(DETACH, 0)
    assert got.size <= limit
    assert got["closed"]
    condition, description = got["error"].value[:2]
    assert condition == "app:no"
    assert text.startswith(description)
    assert len(description.encode()) > min(limit - 80, 8990)


def test_a_condition_that_does_not_fit_is_replaced(connect: Connect, broker: FrameBroker) -> None:
    """2.8.15: a part of a symbol would be another condition."""
    client = connect(max_frame=SMALLEST)
    client.write(client.attaching("queue.a", 0, True))
    there = broker.answer(5, count=0)
    client.attached(0)
    error = Described(Ulong(ERROR), [Symbol("app:" + "c" * 600), "described"])
    broker.write(said(DETACH, there.channel, handle=5, closed=True, error=error))
    got = client.expect(DETACH, 0)
    assert got.size <= SMALLEST
    assert got["error"].value == [TOO_SMALL, "described"]


def test_an_open_says_no_more_than_fits(router: RunningRouter) -> None:
    """2.7.1: it loses its properties for a client with small frames."""
    address = address_of(router.urls[2])
    for limit in (SMALLEST, 4096):
        client = FrameClient(address, max_frame=limit)
        with client.socket:
            client.write(AMQP_HEADER, client.opening)
            opened = client.answer_to_open()
        assert opened.size <= limit
        assert bool(opened["properties"]) == (limit > SMALLEST)
        assert opened["container"]


# ---- what the core reads ----


@pytest.mark.parametrize("address", ["queue.a", "conformance.long"])
def test_an_attach_of_more_than_a_mebibyte_is_refused(
    broker: FrameBroker, wide: FrameClient, name: str, address: str
) -> None:
    """Be its link routed to a broker or not, its client learns why, and attaches another one."""
    wide.write(wide.attaching(address, 0, True, **filtered(address, 2_000_000)))
    _, error = refused(wide, 0)
    assert error[0] == TOO_MUCH
    assert "1 MiB" in error[1]
    wide.receiver(name, 1)
    assert not [got for got in broker.passed if got.code == ATTACH]


def test_a_long_attach_reaches_a_broker_with_long_frames(wide: FrameClient, router: RunningRouter, alone: None) -> None:
    """Up to a MiB, with what the router adds to it."""
    with FrameBroker(address_of(router.urls[3]), "broker", max_frame=WIDE) as broker:
        broker.round_trip(channel=100)
        text = (1 << 20) - 400
        wide.write(wide.attaching("queue.a", 0, True, **filtered("queue.a", text)))
        there = broker.answer(5, count=0)
        assert there["source"].value[7] == {"f": "x" * text}
        wide.attached(0)


def test_an_answer_of_more_than_a_mebibyte_is_refused(connect: Connect, router: RunningRouter, alone: None) -> None:
    """The broker's link ends with the reason, and so does the client's."""
    with FrameBroker(address_of(router.urls[3]), "broker", max_frame=WIDE) as broker:
        broker.round_trip(channel=100)
        client = connect()
        client.write(client.attaching("queue.a", 0, False))
        there = broker.answer(5, properties={Symbol("p"): "v" * 2_000_000})
        detach = broker.expect(DETACH, there.channel, handle=there["handle"])
        assert detach["error"].value[0] == TOO_MUCH
        _, error = refused(client, 0)
        assert error[0] == TOO_MUCH
        broker.write(said(DETACH, there.channel, handle=5, closed=True))
        client.write(client.attaching("queue.b", 1, False))
        broker.answer(6)
        client.attached(1)


def test_an_error_of_more_than_a_mebibyte_passes_shortened(
    connect: Connect, router: RunningRouter, alone: None
) -> None:
    """The client's link does not outlive the broker's."""
    with FrameBroker(address_of(router.urls[3]), "broker", max_frame=WIDE) as broker:
        broker.round_trip(channel=100)
        client = connect()
        client.write(client.attaching("queue.a", 0, True))
        there = broker.answer(5, count=0)
        client.attached(0)
        error = Described(Ulong(ERROR), [Symbol("app:no"), "d" * 2_000_000])
        broker.write(said(DETACH, there.channel, handle=5, closed=True, error=error))
        condition, description = client.expect(DETACH, 0)["error"].value
        assert condition == "app:no"
        assert description == "d" * len(description)


def test_an_open_of_more_than_a_mebibyte_is_closed(router: RunningRouter) -> None:
    """With the reason, and its client is not admitted."""
    with FrameClient(address_of(router.urls[2]), properties={Symbol("p"): "v" * 2_000_000}) as client:
        assert client.end_of_connection().condition == TOO_MUCH
