"""Frames of RMR's transport in messages and as the tests' values, against the annotated example of the wire."""

import struct

import msgspec
import pytest

from core.amqp.codec import binary, mapping, section, symbol
from core.rmr.managers.envelope import ANNOTATION, EnvelopeError, opened, sealed
from core.rmr.managers.messages import Said
from tests.support.clients import rmr_frames as frames
from tests.support.clients.rmr_frames import Frame

TRACE = b"1795230186\0"
PAYLOAD = b"23 57|co" + bytes(range(59))

# A frame captured from an unmodified sender, offset by offset; what its sender leaves undefined is zero here.
PARTS = (
    (0x000, "9c 01 00 00"),
    (0x004, "00 00 01 9c"),
    (0x008, "24"),
    (0x032, "00 00 00 01"),
    (0x036, "00 00 00 43"),
    (0x03A, "00 00 00 03"),
    (0x07E, b"127.0.0.1:43086".hex()),
    (0x0F2, "00 00 00 00"),
    (0x0F6, "00 00 01 18"),
    (0x0FA, "00 00 00 0b"),
    (0x0FE, "00 00 00 04"),
    (0x102, "00 00 00 00"),
    (0x106, "00 00 00 0a"),
    (0x10A, b"127.0.0.1:43086".hex()),
    (0x14A, TRACE.hex()),
    (0x155, "00 00 00 00"),
    (0x159, PAYLOAD.hex()),
)
VALUE = Frame(1, PAYLOAD, 10, source="127.0.0.1:43086", source_ip="127.0.0.1:43086", trace=TRACE)


def example() -> bytes:
    data = bytearray(412)
    for at, text in PARTS:
        octets = bytes.fromhex(text)
        data[at : at + len(octets)] = octets
    return bytes(data)


def test_the_wire_example_octet_by_octet():
    """The value encodes to what was captured, and what was captured decodes to the value."""
    assert frames.encode(VALUE) == example()
    assert frames.decode(example()) == VALUE


def message(frame: bytes) -> bytes:
    """A frame as a worker puts it into a message: the payload is the end of it."""
    header, payload = frame[frames.TRANSPORT_BYTES : -len(PAYLOAD)], frame[-len(PAYLOAD) :]
    annotations = mapping([(symbol(ANNOTATION), binary(header))])
    return section(0x72, annotations) + section(0x75, binary(payload))


def test_the_wire_example_in_a_message():
    """The router reads the captured frame, and writes one with the same fields."""
    heard = opened(message(example()), "conn", "h:1")
    assert (heard.kind, heard.payload, heard.source, heard.call) == (1, PAYLOAD, "127.0.0.1:43086", 0)
    said = sealed(Said(1, PAYLOAD, "127.0.0.1:43086", 10, b"T" * 32, 7), "127.0.0.1:43086")
    expected = msgspec.structs.replace(VALUE, trace=b"", transaction=b"T" * 32, d1=b"\7\0\0\0")
    assert said == message(frames.encode(expected))


@pytest.mark.parametrize("at", [50 + 4, 50 + 196, 50 + 200, 50 + 204, 50 + 208])
@pytest.mark.parametrize("value", [-1, 0x7FFFFFFF, -(2**31), 500])
def test_a_message_whose_frame_has_a_wrong_length(at, value):
    """No part of a frame may lie outside it."""
    data = bytearray(example())
    struct.pack_into(">i", data, at, value)
    with pytest.raises(EnvelopeError, match=r"parts|header"):
        opened(message(bytes(data)), "", "")


def test_a_source_that_does_not_fit():
    """The router refuses to shorten its own name."""
    with pytest.raises(EnvelopeError, match="more than 63"):
        sealed(Said(1, b"", "h" * 64), "")


def test_no_marker_and_garbage_where_nothing_stands():
    """Old senders write no marker, and octets 13 to 49 hold whatever was in memory."""
    data = bytearray(example())
    data[8] = 0
    data[4:8] = b"\xff" * 4
    data[13:50] = b"\xa5" * 37
    assert frames.decode(bytes(data)) == VALUE


def test_every_field_survives():
    """What is put into a frame comes out of it."""
    frame = Frame(
        -7,
        b"x",
        -1,
        "ran-1",
        "app:4560",
        "10.0.0.1:4560",
        b"T" * 32,
        b"S" * 32,
        frames.CALL,
        b"trace",
        b"\x02\0\0\0",
        b"d2",
    )
    assert frames.decode(frames.encode(frame)) == frame
    assert frame.call == 2


def test_a_header_of_version_2():
    """It ends before the ip:port."""
    frame = Frame(9, b"old", 1, "m", "s:1", version=2, short=True)
    data = frames.encode(frame)
    assert len(data) == 50 + 216 + 4 + 3
    assert frames.decode(data) == frame


@pytest.mark.parametrize("step", [1, 7, 50, 411, 413, 5000])
def test_a_stream_in_pieces(step):
    """Frames come out of a stream however it is cut."""
    stream = example() * 5 + frames.encode(Frame(3)) * 3
    reader = frames.Reader()
    found = [one for at in range(0, len(stream), step) for one in reader.feed(stream[at : at + step])]
    assert found == [VALUE] * 5 + [Frame(3)] * 3


@pytest.mark.parametrize("at", [50 + 4, 50 + 196, 50 + 200, 50 + 204, 50 + 208])
@pytest.mark.parametrize("value", [-1, 0x7FFFFFFF, -(2**31), 500])
def test_a_length_that_is_wrong(at, value):
    """No part of a frame may lie outside it."""
    data = bytearray(example())
    struct.pack_into(">i", data, at, value)
    with pytest.raises(frames.FrameError):
        frames.decode(bytes(data))


@pytest.mark.parametrize("value", [0, 49, 265, (16 << 20) + 1, 2**32 - 1])
def test_a_frame_of_an_impossible_length(value):
    """It is refused before anything is waited for."""
    with pytest.raises(frames.FrameError, match="octets"):
        frames.Reader().feed(struct.pack("<I", value) + bytes(60))


def test_what_does_not_fit():
    """An error names what is too long."""
    with pytest.raises(frames.FrameError, match="MEID has 32"):
        frames.encode(Frame(1, meid="m" * 32))
    with pytest.raises(frames.FrameError, match="does not fit"):
        frames.encode(Frame(2**31))
