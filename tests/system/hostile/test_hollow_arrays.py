"""Attaches with arrays that are not what they claim to be: the connection ends, and no process."""

import socket
import struct

import psutil
import pytest

from tests.support.clients.wire import AMQP_HEADER, OPEN, begin, described, frame
from tests.support.running import RunningRouter

NULL = b"\x40"
ARRAYS = (
    "f0000000100000000200a3017100",
    "f00000001000000002 00a3017100 7482a10074a300",
    "f00000000d00009402710000000100000002",
)
PLACES = {"dynamic properties": 5, "filter": 7, "outcomes": 9, "capabilities": 10}


def listed(values: list[bytes]) -> bytes:
    octets = b"".join(values)
    return b"\xd0" + struct.pack(">II", len(octets) + 4, len(values)) + octets


def attach(place: int, array: bytes) -> bytes:
    """A receiver's, with the array in its source; 0: among its properties."""
    mapped = b"\xa3\x01a" + array
    mapped = b"\xd1" + struct.pack(">II", len(mapped) + 4, 2) + mapped
    source = [b"\xa1\x03zzz", *[NULL] * 10]
    if place:
        source[place] = mapped if place < 9 else array
    ends = [b"\x00\x53\x28" + listed(source), b"\x00\x53\x29" + listed([b"\xa1\x03zzz"])]
    fields = [b"\xa1\x01l", b"\x43", b"\x41", NULL, NULL, *ends, *[NULL] * 6]
    return frame(0, b"\x00\x53\x12" + listed([*fields, NULL if place else mapped]))


@pytest.mark.parametrize("place", [*PLACES.values(), 0], ids=[*PLACES, "properties"])
def test_no_worker_dies_of_an_array(router: RunningRouter, place: int) -> None:
    """Of described values, or with fewer elements than it claims: the engine could not encode it again."""
    before = {child.pid for child in psutil.Process(router.process.pid).children(recursive=True)}
    for array in ARRAYS:
        with socket.create_connection(("127.0.0.1", int(router.url.rpartition(":")[2])), timeout=30) as sock:
            sock.sendall(AMQP_HEADER + frame(0, described(OPEN, "hollow")) + begin(0))
            sock.sendall(attach(place, bytes.fromhex(array)) + frame(0, b"\x00\x53\x18\x45"))
            while sock.recv(4096):
                pass
    assert {child.pid for child in psutil.Process(router.process.pid).children(recursive=True)} == before
