"""Texts whose octets are not UTF-8, over every way in: management still shows all of its entities."""

import pytest
from proton import Message

from routerd.cli.client import Client, Place
from tests.support.clients.frame_client import FrameClient, transfer
from tests.support.clients.octets import DETACH
from tests.support.clients.rmr import Link
from tests.support.clients.rmr_frames import Frame, encode
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import Verdict
from tests.support.running import RunningRouter

PLAIN = "odd.zzz"  # in the place of each
ADDRESS, LINK = (f"org.apache.qpid.dispatch.{name}" for name in ("router.config.address", "router.link"))
ODD = [b"odd.\xff\xfe\x80", b"odd.\xed\xa0\x80", b"odd.\xc3(z"]  # no lead octets, half of a pair, no trail


def odd(octets: bytes, text: bytes) -> bytes:
    """Octets in which the plain text, which is as long, has become an odd one."""
    assert len(text) == len(PLAIN)
    return octets.replace(PLAIN.encode(), text)


def attach(client: FrameClient, text: bytes) -> None:
    """A receiver and a sender of the text, which are refused."""
    client.begin()
    client.write(*(odd(client.attaching(PLAIN, handle, not handle), text) for handle in (0, 1)))
    for _ in range(2):
        assert client.expect(DETACH, 0).condition == "amqp:decode-error"


def send(client: FrameClient, text: bytes) -> None:
    """An anonymous message to the text, and a request that names an entity so."""
    client.begin()
    client.sender(None)
    create = {"operation": "CREATE", "type": ADDRESS, "name": PLAIN}
    request = Message(address="$management", reply_to=PLAIN, properties=create, body={"prefix": PLAIN})
    for number, message in enumerate((Message(address=PLAIN), request)):
        client.write(transfer(number, odd(message.encode(), text)))
    client.settled(0, 1)


@pytest.mark.parametrize("text", ODD)
def test_all_entities_are_shown(attacked: RunningRouter, target: Target, text: bytes) -> None:
    """After links, messages and frames that name such texts; no link has one."""
    address, link = ("127.0.0.1", target.amqp), Link.to(f"127.0.0.1:{target.rmr}")
    with Verdict(attacked), FrameClient(address) as links, FrameClient(address) as sender:
        attach(links, text)
        send(sender, text)
        link.socket.sendall(odd(encode(Frame(1004, b"x", meid=PLAIN, source=f"{PLAIN}:1")), text))
        with Client(Place(f"amqp://127.0.0.1:{target.amqp}")) as agent:
            assert "odd." not in str(agent.call("QUERY", {"attributeNames": []}, entityType=LINK))
            types = agent.call("GET-TYPES")
            assert len(types) > 20
            for name in types:
                agent.call("QUERY", {"attributeNames": []}, entityType=name)
        link.close()
