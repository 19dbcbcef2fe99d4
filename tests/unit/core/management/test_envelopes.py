"""What stands around a management request: whom the answer goes to, and by which id it is told from others."""

from typing import Any
from uuid import UUID

import pytest
from proton import Message, ulong

from core.management import codec
from core.management.request import ManagementError, Request


@pytest.mark.parametrize("correlation", [ulong(7), "seven", b"seven", UUID(int=7), None])
def test_correlation_id_keeps_its_type(correlation: Any) -> None:
    """It comes back as it came."""
    sent = Message(reply_to="back", properties={"operation": "QUERY"}, body={})
    sent.correlation_id = correlation
    envelope, request = codec.decode(bytes(sent.encode()))
    assert isinstance(request, Request)
    reply = Message()
    reply.decode(codec.encode(envelope, codec.Response(200, {"a": 1})))
    assert (reply.address, reply.correlation_id, reply.body) == ("back", correlation, {"a": 1})
    assert type(reply.correlation_id) is type(sent.correlation_id)  # bytes are seen through a memoryview
    assert reply.properties == {"statusCode": 200, "statusDescription": "OK"}


NOT_CORRELATING = {
    "boolean": b"\x41",
    "int": b"\x54\x05",
    "symbol": b"\xa3\x01a",
    "list": b"\x45",
    "map": b"\xc1\x01\x00",
    "described": b"\x00\x53\x70\x45",
    "cut off": b"\xa1\xff",
}


def with_correlation(encoded: bytes) -> bytes:
    """A request with properties (AMQP 3.2.4) of reply-to and this correlation-id, behind other sections."""
    fields = b"\x40\x40\x40\x40\xa1\x04back" + encoded
    properties = b"\x00\x53\x73\xc0" + bytes([len(fields) + 1, 6]) + fields
    request = bytes(Message(properties={"operation": "QUERY"}, body={}).encode())
    others = request[request.index(b"\x00\x53\x74") :]
    return b"\x00\x53\x70\x45\x00\x53\x72\xc1\x01\x00" + properties + others


@pytest.mark.parametrize("encoded", NOT_CORRELATING.values(), ids=NOT_CORRELATING.keys())
def test_a_correlation_id_of_no_such_type(encoded: bytes) -> None:
    """The requester is told, for it could not tell the answer's."""
    envelope, request = codec.decode(with_correlation(encoded))
    assert isinstance(request, ManagementError)
    assert (envelope.reply_to, request.status) == ("back", 400)
    assert isinstance(codec.decode(with_correlation(b"\x53\x07"))[1], Request)
    assert isinstance(codec.decode(with_correlation(b"\x40"))[1], Request)


@pytest.mark.parametrize("content", [b"", b"nonsense", bytes(Message(body={}).encode()), b"\x00\x53\x73\x45"])
def test_what_cannot_be_answered(content: bytes) -> None:
    """No AMQP message, or nobody to tell."""
    with pytest.raises(codec.NoReplyError):
        codec.decode(content)


@pytest.mark.parametrize(("properties", "body"), [(None, {}), ({"operation": None}, {}), ({"operation": b"QUERY"}, {})])
def test_a_request_without_operation(properties: Any, body: Any) -> None:
    """It is answered: bad request."""
    message = Message(reply_to="back", body=body, properties=properties)
    _, request = codec.decode(bytes(message.encode()))
    assert isinstance(request, ManagementError)
    assert request.status == 400
