"""RMR applications and AMQP clients on one route table: who gets what, and how replies come back."""

import threading
import time
from collections.abc import Iterator

import pytest
from proton import Message, symbol

from tests.support.clients import rmr_frames as frames
from tests.support.clients.rmr import Application, Link
from tests.support.clients.rmr_frames import CALL, Frame
from tests.support.peer import ACCEPTED, REJECTED, Net
from tests.support.routers.rmr_stage import LISTENERS, MODES, Pair, Stage, changed
from tests.support.running import Configuration, RunningRouter, until

TABLE = """newrt|start|t1
mse|1000|-1|{b}
mse|1001|-1|{b};amqp:1
mse|1002|-1|{b},amqp:1
mse|1003|10|{b}
mse|1004|-1|amqp:1
mse|1005|-1|{a},{b}
mse|1006|-1|%meid
newrt|end|7
meid_map|start|m1
mme_ar|{b}|ran-1
meid_map|end|1
"""
SIGNED = {"rmr.mt": 1000, "rmr.sub-id": 3, "rmr.meid": "ran-7"}


@pytest.fixture(scope="module")
def applications() -> Iterator[tuple[Application, Application]]:
    with Application() as a, Application() as b:
        yield a, b


@pytest.fixture(scope="module")
def configuration(
    applications: tuple[Application, Application], tmp_path_factory: pytest.TempPathFactory
) -> Configuration:
    a, b = applications
    seed = tmp_path_factory.mktemp("tables") / "seed"
    seed.write_text(TABLE.format(a=a.name, b=b.name))
    return Configuration(
        router="workers: 2",
        expected="endpoint .*: (host |Connection re|closed by the peer)",
        sections="".join(
            f"""
routeTable {{
 name: {mode}
 seed: {seed}
 reply: {mode if mode in MODES else "proxied"}
}}
"""
            for mode in dict.fromkeys(LISTENERS)
        )
        + "".join(
            f"""
listener {{
 host: 127.0.0.1
 port: 0
 protocol: rmr
 table: {table}
 replies: {"yes" if number == len(MODES) + 1 else "no"}
}}
"""
            for number, table in enumerate(LISTENERS)
        ),
    )


@pytest.fixture(scope="module")
def stage(applications: tuple[Application, Application], router: RunningRouter) -> Iterator[Stage]:
    """A is connected to each table's listener; the router is connected to A and B."""
    a, b = applications
    stage = Stage(router, a, b)
    for mode in dict.fromkeys(LISTENERS):
        pair = Pair(stage, mode)
        until(pair.reaches, f"B by the table {mode}")
        pair.a.close()
    yield stage
    a.close()
    b.close()


@pytest.fixture(params=MODES)
def pair(stage: Stage, request: pytest.FixtureRequest) -> Iterator[Pair]:
    pair = Pair(stage, request.param)
    yield pair
    pair.a.close()


@pytest.fixture
def proxied(stage: Stage) -> Iterator[Pair]:
    pair = Pair(stage, "proxied")
    yield pair
    pair.a.close()


def test_rmr_to_rmr_byte_for_byte(pair: Pair) -> None:
    """All but what the reply mode needs: trace, d1, transaction, flags, the source's address."""
    sent = pair.send(
        1003,
        b"byte for byte " + pair.mode.encode(),
        subscription=10,
        meid="ran-9",
        transaction=b"T" * 32,
        trace=b"trace\0",
        d1=b"\x01\x02\x03\x04",
        flags=CALL,
        sid=b"mine",
    )
    _, got = pair.arrives(1003, sent.payload)
    source = {"proxied": pair.name, "transparent": sent.source, "sameConnection": ""}[pair.mode]
    assert got.source == source
    if pair.mode == "transparent":
        assert frames.encode(got) == frames.encode(sent)
    else:
        assert got.sid not in (b"", b"mine")
        given = {name: getattr(sent, name) for name in ("source", "sid")}
        assert frames.encode(changed(got, **given)) == frames.encode(sent)


@pytest.mark.parametrize("call", [0, 2])
def test_a_reply_comes_back_to_who_asked(pair: Pair, call: int) -> None:
    """Over the connection that it asked on, with its own sid; or B reaches A directly."""
    text = f"ask {pair.mode} {call}".encode()
    asked = pair.send(
        1000, text, transaction=b"x" * 32, sid=b"A's own", d1=bytes((call, 0, 0, 0)), flags=CALL if call else 0
    )
    link, got = pair.arrives(1000, text)
    assert (got.flags, got.call, got.transaction) == (asked.flags, call, asked.transaction)
    answer = changed(got, message_type=1001, payload=b"answer", source=pair.stage.b.name, flags=0)
    if pair.mode == "transparent":
        assert got.source == pair.stage.a.name
        return
    if pair.mode == "proxied":
        link = Link.to(got.source)
    link.send(answer)
    (back,) = pair.a.receive()
    assert back == changed(answer, sid=asked.sid)
    if pair.mode == "proxied":
        link.close()


def test_two_askers_get_their_own_answers(stage: Stage, proxied: Pair) -> None:
    """Answers in any order find their way by the token."""
    other = Pair(stage, "proxied")
    asked = [(one, one.send(1000, b"q%d" % i)) for i, one in enumerate((proxied, other, proxied, other))]
    got = [proxied.arrives(1000, b"q%d" % i)[1] for i in range(4)]
    to_router = Link.to(got[0].source)
    for i in (3, 0, 2, 1):
        to_router.send(changed(got[i], message_type=7000 + i, payload=b""))
    assert [one.message_type for one in proxied.a.receive(2)] == [7000, 7002]
    assert [one.message_type for one in other.a.receive(2)] == [7003, 7001]
    assert len(asked) == 4
    other.a.close()
    to_router.close()


def test_what_is_sent_on_is_no_reply_where_replies_have_a_listener(stage: Stage, net: Net) -> None:
    """B sends A's message on by the table, token and all; and answers it, too."""
    pair = Pair(stage, "split")
    peer = net.peer()
    receiver = peer.receiver("split/amqp:1", 10)
    peer.round_trip()
    pair.send(1000, b"split", sid=b"A's")
    _, got = pair.arrives(1000, b"split")
    assert got.source != pair.name
    forward = Link.to(pair.name)
    forward.send(changed(got, message_type=1004, payload=b"sent on", source=stage.b.name))
    (arrived,) = peer.take(receiver)
    assert bytes(arrived.message.body) == b"sent on"
    arrived.settle()
    reply = Link.to(got.source)
    reply.send(changed(got, message_type=1004, payload=b"reply", source=stage.b.name))
    (back,) = pair.a.receive()
    assert (back.payload, back.sid) == (b"reply", b"A's")
    for link in (pair.a, forward, reply):
        link.close()


def test_a_slow_endpoint_loses_nothing(proxied: Pair) -> None:
    """It reads nothing for a while: the sender's socket fills up, and all arrives in the end, in order."""
    number, sent = 4_000, []

    def send() -> None:
        for i in range(0, number, 100):
            proxied.a.send(*(Frame(1000, b"slow %06d" % j + bytes(5000)) for j in range(i, i + 100)))
            sent.append(time.monotonic())

    sender = threading.Thread(target=send)
    sender.start()
    until(lambda: sent and time.monotonic() > sent[-1] + 0.5, "a sender that has to wait")
    assert sender.is_alive()
    for i in range(number):
        _, got = proxied.stage.b.take(lambda frame: frame.payload.startswith(b"slow"))
        assert got.payload[:11] == b"slow %06d" % i
    sender.join()


def test_rmr_to_amqp(net: Net, proxied: Pair) -> None:
    """An AMQP receiver is an endpoint; it sees key, source and payload, and may answer."""
    peer = net.peer()
    receiver = peer.receiver("proxied/amqp:1", 10)
    peer.round_trip()
    asked = proxied.send(1004, b"to amqp", meid="ran-3", sid=b"own", flags=CALL, d1=b"\1\0\0\0")
    (arrived,) = peer.take(receiver)
    message = arrived.message
    assert bytes(message.body) == b"to amqp"
    assert message.properties == {"rmr.mt": 1004, "rmr.sub-id": -1, "rmr.meid": "ran-3", "rmr.source": asked.source}
    arrived.settle()
    header = message.annotations[symbol("x-opt-rmr.header")]
    answer = Message(
        body=b"answer", inferred=True, properties={"rmr.mt": 1005}, annotations={symbol("x-opt-rmr.header"): header}
    )
    sender = peer.ready_sender(message.reply_to)
    delivery = net.send(sender, answer)
    net.until(lambda: delivery.settled, "outcome")
    assert delivery.remote_state == ACCEPTED
    (back,) = proxied.a.receive()
    assert (back.message_type, back.payload, back.sid) == (1005, b"answer", b"own")
    assert (back.flags, back.call) == (0, 1)


def test_an_amqp_client_gives_no_tables(net: Net, proxied: Pair) -> None:
    """Neither by the table, nor to an application's connection, nor to where the router takes them."""
    peer = net.peer()
    proxied.send(1004, b"who am i")
    receiver = peer.receiver("proxied/amqp:1", 10)
    peer.round_trip()
    proxied.send(1004, b"who am i")
    (arrived, *_) = peer.take(receiver)
    arrived.settle()
    table = Message(body=b"newrt|start", inferred=True, properties={"rmr.mt": 20})
    for address in (arrived.message.reply_to, "proxied"):
        delivery = net.send(peer.ready_sender(address), table)
        net.until(lambda delivery=delivery: delivery.settled, "outcome")
        assert delivery.remote_state == REJECTED
    sender = peer.begin_sender("proxied/$rm")
    net.until(lambda: sender.remote_condition is not None, "refusal")
    assert not proxied.a.read(0.05)


def test_amqp_to_rmr(net: Net, proxied: Pair) -> None:
    """A frame from application properties, with what they do not say as the library has it."""
    peer = net.peer()
    sender = peer.ready_sender("proxied")
    delivery = net.send(sender, Message(body=b"from amqp", inferred=True, properties=SIGNED))
    net.until(lambda: delivery.settled, "outcome")
    _, got = proxied.arrives(1000, b"from amqp")
    assert got == Frame(1000, b"from amqp", 3, "ran-7", source=proxied.name)
    assert delivery.remote_state == ACCEPTED


def test_an_amqp_client_is_answered_at_its_endpoint(net: Net, proxied: Pair) -> None:
    """It names itself as rmr.source, and receives there."""
    peer = net.peer()
    receiver = peer.receiver("proxied/client:9", 10)
    sender = peer.ready_sender("proxied")
    asked = net.send(sender, Message(body=b"ask", inferred=True, properties=SIGNED | {"rmr.source": "client:9"}))
    net.until(lambda: asked.settled, "outcome")
    _, got = proxied.arrives(1000, b"ask")
    link = Link.to(got.source)
    link.send(changed(got, message_type=1001, payload=b"told"))
    (arrived,) = peer.take(receiver)
    assert arrived.message.properties["rmr.mt"] == 1001
    arrived.settle()
    link.close()


def test_bodies_of_all_kinds(net: Net, proxied: Pair) -> None:
    """Data in pieces is joined, a value of octets is taken, anything else is rejected with the reason."""
    peer = net.peer()
    sender = peer.ready_sender("proxied")
    head = bytes(Message(properties=SIGNED).encode())
    pieces = b"".join(b"\0\x53\x75\xa0\x04" + part for part in (b"one ", b"two ", b"tre "))
    delivery = net.send(sender, head + pieces)
    net.until(lambda: delivery.settled, "outcome")
    assert proxied.arrives(1000, b"one two tre ")
    delivery = net.send(sender, Message(body="text", properties=SIGNED))
    net.until(lambda: delivery.settled, "outcome")
    assert proxied.arrives(1000, b"text")
    delivery = net.send(sender, Message(body=[1, 2], properties=SIGNED))
    net.until(lambda: delivery.settled, "outcome")
    assert delivery.remote_state == REJECTED
    assert delivery.remote.condition.name == "routerd:not-an-rmr-message"


def test_a_group_of_both_kinds(net: Net, proxied: Pair) -> None:
    """Copies to both groups; turns within one."""
    peer = net.peer()
    receiver = peer.receiver("proxied/amqp:1", 50)
    peer.round_trip()
    proxied.send(1001, b"both")
    proxied.arrives(1001, b"both")
    (arrived,) = peer.take(receiver)
    assert bytes(arrived.message.body) == b"both"
    arrived.settle()
    for i in range(10):
        proxied.send(1002, b"turn %d" % i)
    amqp = [bytes(one.message.body) for one in peer.take(receiver, 5)]
    rmr = [proxied.stage.b.take(lambda frame: frame.message_type == 1002)[1].payload for _ in range(5)]
    assert sorted(amqp + rmr) == [b"turn %d" % i for i in range(10)]
    for one in peer.inbox(receiver):
        one.settle()


def test_a_sender_gets_none_of_its_own(proxied: Pair) -> None:
    """It is left out of the groups of its messages."""
    for i in range(4):
        proxied.send(1005, b"own %d" % i)
    assert [proxied.arrives(1005, b"own %d" % i)[1].payload for i in range(4)]


def test_by_managed_entity(proxied: Pair) -> None:
    """The MEID of the frame says who owns it."""
    proxied.send(1006, b"by meid", meid="ran-1")
    assert proxied.arrives(1006, b"by meid")


def test_a_frame_of_megabytes(net: Net, pair: Pair) -> None:
    """It streams through: to RMR, and from AMQP to RMR."""
    payload = bytes(range(256)) * 4096 * 2
    pair.send(1000, payload)
    assert pair.arrives(1000, payload)
    sender = net.peer().ready_sender(pair.mode)
    payload = payload[1:] + b"!"
    delivery = net.send(sender, Message(body=payload, inferred=True, properties=SIGNED))
    net.until(lambda: pair.stage.b.look() or delivery.settled, "outcome", 60)
    assert delivery.remote_state == ACCEPTED
    assert pair.arrives(1000, payload)


@pytest.mark.parametrize("cut", [1, 49, 57, 333, 399])
def test_frames_in_pieces(proxied: Pair, cut: int) -> None:
    """However TCP cuts and joins them."""
    text = f"cut {cut} ".encode()
    stream = b"".join(frames.encode(Frame(1000, text + b"%d" % i, source="x:1")) for i in range(40))
    for at in range(0, len(stream), cut * 7):
        proxied.a.socket.sendall(stream[at : at + cut * 7])
    assert [proxied.stage.b.take(lambda f: f.payload.startswith(text))[1].payload for _ in range(40)] == [
        text + b"%d" % i for i in range(40)
    ]


def test_an_amqp_client_asks_as_amqp_clients_do(net: Net, pair: Pair) -> None:
    """Its reply-to and its id go with the frame; what B returns to its sender is the reply."""
    peer = net.peer()
    replies = peer.receiver(None, 10)
    asked = Message(body=b"how much", inferred=True, properties={"rmr.mt": 1000}, id=7)
    asked.reply_to = replies.remote_source.address
    sent = net.send(peer.ready_sender(pair.mode), asked)
    assert net.settled(sent) == [ACCEPTED]
    link, got = pair.arrives(1000, b"how much")
    assert got.source == (pair.name if pair.mode == "proxied" else "")
    link = Link.to(got.source) if got.source else link
    forged = changed(got, trace=got.trace.replace(b"temp", b"tamp"), message_type=1004, payload=b"forged")
    link.send(forged, changed(got, message_type=1001, payload=b"this much", source=pair.stage.b.name))
    (arrived,) = peer.take(replies)
    assert (bytes(arrived.message.body), arrived.message.correlation_id) == (b"this much", 7)
    assert arrived.message.properties["rmr.mt"] == 1001
    arrived.settle()
    if pair.mode == "proxied":
        link.close()


def test_a_blocking_call_is_answered_as_amqp_clients_do(net: Net, pair: Pair) -> None:
    """To its reply-to, with its message-id as correlation-id: nothing of RMR need be known for that."""
    peer = net.peer()
    receiver = peer.receiver(f"{pair.mode}/amqp:1", 10)
    peer.round_trip()
    call = {"transaction": b"T" * 32, "sid": b"own", "d1": b"\7\0\0\0", "meid": "ran-1", "flags": CALL}
    pair.send(1004, b"call", subscription=5, **call)
    (arrived,) = peer.take(receiver)
    arrived.settle()
    to, call_id = arrived.message.reply_to, arrived.message.id
    answer = Message(b"told", inferred=True, address=to, correlation_id=call_id)
    assert net.settled(net.send(peer.ready_sender(None), answer)) == [ACCEPTED]
    (back,) = pair.a.receive()
    assert (back.message_type, back.subscription, back.payload) == (1004, 5, b"told")
    assert (back.flags, back.call, back.transaction) == (0, 7, b"T" * 32)
    assert (back.sid, back.meid) == (b"own", "ran-1")
