"""Messages whose sections never end, or come in small pieces."""

import struct

import pytest

from tests.support.clients.frame_client import FrameClient, transfer
from tests.support.hostile.verdict import Verdict
from tests.support.running import RunningRouter

FRAME = 16_000  # octets of a message in a frame
FRAMES = 60  # 40 kB less than what a section may have
PIECES = 3_000  # of one octet each
SECTIONS = {"message-annotations": 0x72, "properties": 0x73, "application-properties": 0x74}


def beginning(section: int, size: int) -> bytes:
    """A section whose size stands there and whose content does not."""
    constructor = b"\xd0" if section == SECTIONS["properties"] else b"\xd1"
    return b"\0\x53" + bytes([section]) + constructor + struct.pack(">I", size)


@pytest.mark.parametrize("section", SECTIONS.values(), ids=SECTIONS.keys())
def test_a_section_that_never_ends(router: RunningRouter, section: int) -> None:
    """Octet by octet, behind nearly as many as it may have; then it is longer than that, and refused."""
    with FrameClient(router.address) as client, Verdict(router):
        client.begin()
        client.sender(None)
        client.write(transfer(0, beginning(section, 2_000_000), more=True))
        client.write(transfer(None, bytes(FRAME), more=True) * FRAMES)
        for _ in range(PIECES):
            client.write(transfer(None, b"\0", more=True))
        client.write(transfer(None, bytes(FRAME), more=True) * 6)
        client.write(transfer(None, bytes(FRAME)))
        (outcome,) = client.settled(0, 0)
        assert "1 MiB" in outcome.value[0].value[1] or section == SECTIONS["application-properties"]


def test_a_message_goes_on_as_soon_as_its_sections_are_there(router: RunningRouter) -> None:
    """Not later, though the router waits for the end of a section before it looks again, and the body never ends."""
    annotations = beginning(0x72, 40_000) + struct.pack(">I", 2) + b"\xa3\x01a\xb0" + struct.pack(">I", 39_988)
    sections = annotations + bytes(39_988) + b"\0\x53\x73\xc0\x08\x03\x40\x40\xa1\x03x/y"
    with FrameClient(router.address) as client:
        client.begin()
        client.receiver("x/y", 0, credit=10)
        client.sender("x/y", 1)
        first, last = sections[:-3], sections[-3:]
        for at in range(0, len(first), 1_000):
            client.write(transfer(None if at else 0, first[at : at + 1_000], handle=1, more=True))
        for octet in last:
            client.write(transfer(None, bytes([octet]), handle=1, more=True))
        (frame,) = client.frames(1)
        assert frame.payload == sections[: len(frame.payload)]
        client.write(transfer(None, b"\0\x53\x75\xa0\x01x", handle=1))
