"""RMR's transport at a listener: frames as AMQP messages, wrong frames, credit, large frames, the log."""

import re
import socket
import struct
from functools import partial

import pytest
from proton import Message
from proton.utils import BlockingConnection

from routerd.cli.client import Client, Place
from shm.contract.tables import connections
from tests.support.clients import rmr_frames as frames
from tests.support.clients.rmr import Link
from tests.support.clients.rmr_frames import Frame
from tests.support.running import LONG, Configuration, RunningRouter, address_of, until

MOST = 1 << 20  # maxFrameSize of the table


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    seed = tmp_path_factory.mktemp("table") / "seed"
    seed.write_text("newrt|start\nmse|1004|-1|amqp:1\nnewrt|end|1\n")
    return Configuration(
        router="workers: 2",
        sections=f"""
routeTable {{
 name: rt
 maxFrameSize: {MOST}
 seed: {seed}
 connect: no
}}
listener {{
 host: 127.0.0.1
 port: 0
 protocol: rmr
 table: rt
 messageLoggingComponents: app-properties
}}
""",
    )


@pytest.fixture
def link(router: RunningRouter) -> Link:
    """A connection of an RMR application."""
    return Link(socket.create_connection(address_of(router.urls[1])))


def test_listeners_say_what_they_speak(router: RunningRouter) -> None:
    """The table of what to connect to tells RMR from AMQP."""
    assert "rmr://127.0.0.1:" in router.output


LENGTHS = {"payload": 54, "header": 246, "trace": 250, "d1": 254, "d2": 258}


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("value", [-1, 0x7FFFFFFF, -0x80000000, 100_000])
def test_a_frame_with_a_wrong_length_ends_its_connection(
    router: RunningRouter, link: Link, name: str, value: int
) -> None:
    """That connection alone, counted, with its peer in the log."""
    before = router.counted("rmr_bad_header")
    other = Link(socket.create_connection(address_of(router.urls[1])))
    data = bytearray(frames.encode(Frame(1000, b"x" * 50)))
    struct.pack_into(">i", data, LENGTHS[name], value)
    me = link.name
    link.socket.sendall(data)
    assert link.closed()
    until(lambda: router.counted("rmr_bad_header") == before + 1, "the count")
    until(lambda: f"connection of {me} ended: the parts of a frame" in router.log, "the log")
    assert not other.read(0.01)
    other.send(Frame(30))  # still there: a reserved type is dropped and counted
    reserved = router.counted("rmr_reserved")
    other.send(Frame(30))
    until(lambda: router.counted("rmr_reserved") > reserved, "the other connection")
    other.close()


@pytest.mark.parametrize("length", [0, 1, 49, 265, MOST + 1, 0xFFFFFFFF])
def test_a_frame_of_an_impossible_length_ends_its_connection(router: RunningRouter, link: Link, length: int) -> None:
    """At once: nothing is waited for."""
    before = router.counted("rmr_bad_length")
    link.socket.sendall(struct.pack("<I", length) + bytes(20))
    assert link.closed()
    until(lambda: router.counted("rmr_bad_length") == before + 1, "the count")


OCTETS = "\udcff\udcfe"  # ff fe, as Python writes octets that are no text


def test_octets_that_are_no_text_reach_amqp_clients_as_binary(router: RunningRouter, link: Link) -> None:
    """A frame's managed entity and source that are not UTF-8 cannot hurt a client's decoder; what is text
    stays text, and all go back as the octets that they were."""
    amqp = BlockingConnection(router.url, timeout=LONG)
    receiver = amqp.create_receiver("rt/amqp:1", credit=10)
    link.send(Frame(1004, b"text", meid="gnb-ä", source="app:1"))
    link.send(Frame(1004, b"octets", meid=OCTETS, source=OCTETS))
    text, octets = receiver.receive(), receiver.receive()
    receiver.accept(), receiver.accept()
    assert text.properties == {"rmr.mt": 1004, "rmr.sub-id": -1, "rmr.meid": "gnb-ä", "rmr.source": "app:1"}
    assert octets.properties == text.properties | {"rmr.meid": b"\xff\xfe", "rmr.source": b"\xff\xfe"}
    assert bytes(octets.body) == b"octets"
    octets.annotations = None  # a client that knows nothing of headers
    amqp.create_sender(octets.reply_to).send(octets)
    (back,) = link.receive()
    assert (back.meid, back.payload) == (OCTETS, b"octets")
    amqp.close()
    link.close()


def test_a_connection_that_ends_inside_a_frame(router: RunningRouter, link: Link) -> None:
    """It is said, and nothing of the frame is left."""
    me = link.name
    link.socket.sendall(frames.encode(Frame(1000, b"x" * 50))[:200])
    link.close()
    until(lambda: f"connection of {me} ended: it ended inside a frame" in router.log, "the log")


def test_frames_and_messages_of_one_connection_in_the_log(router: RunningRouter, link: Link) -> None:
    """Frames of one connection, as they came and as they go; of messages what its listener says."""
    until(lambda: re.search(rf"connection from {link.name} opened, RMR", router.log), "the connection")
    found = re.search(rf"\[C(\d+)\] connection from {link.name} opened, RMR", router.log)
    assert found is not None
    number = found[1]
    link.send(Frame(1000, b"not traced"))
    until(lambda: f"[C{number}] Received Message" in router.log, "the first message")
    with Client(Place(router.url)) as client:
        connection = {"type": "connection", "identity": number}
        client.call("UPDATE", {"enableProtocolTrace": True}, **connection)
        assert client.call("READ", **connection)["enableProtocolTrace"] is True
        link.send(Frame(1000, b'say "it"', meid="gnb1", source="app:9", sid=b"mine"))
        came = 'sub-id=-1, source="app:9", address="", meid="gnb1", sid="mine"] (8) "say \\"it\\""'
        until(lambda: f"PROTOCOL (trace) [C{number}]:RMR: <- @1000 [{came}" in router.log, "a frame that comes")
        amqp = BlockingConnection(router.url, timeout=LONG)
        sender = amqp.create_sender(f"rt/{connections(router.id)}{number}")
        sender.send(Message(body=b"back", inferred=True, properties={"rmr.mt": 1001}))
        amqp.close()
        assert link.receive()[0].payload == b"back"
        until(lambda: f"[C{number}]:RMR: -> @1001 [sub-id=-1," in router.log, "a frame that goes")
        sent = f"[C{number}] Sent Message{{app-properties={{\"rmr.mt\"=1001}}}} on link 'rmr-back'"
        until(lambda: sent in router.log, "a message that goes")
        client.call("UPDATE", {"enableProtocolTrace": False}, **connection)
        until(partial(untraced, router, link, number), "the end of the trace")
    link.close()
    assert "not traced" not in router.log


def untraced(router: RunningRouter, link: Link, number: str) -> bool:
    """Whether a further frame is in no trace: the worker hears of its end a moment after the agent has answered."""
    received = f"[C{number}] Received Message{{app-prop"
    before = router.log.count(received)
    last = f"frame {before} and no more"
    link.send(Frame(1000, last.encode()))
    until(lambda: router.log.count(received) > before, "a further message")
    return last not in router.log
