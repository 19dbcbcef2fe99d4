"""`routerd receive` at a peer that sends what it likes."""

import json
from typing import Any

from proton import Delivery, Message

from tests.support.servers.command_peer import CommandPeer, told

BODY = bytes.fromhex("005377")  # the section amqp-value (AMQP 1.0 part 3.2.8)
UNREADABLE = (
    BODY + b"\xa1\x02\xff\xfe",  # a string that is no UTF-8
    BODY + b"\x73\x00\x11\x00\x00",  # no character
    BODY + b"\xc1\x05\x02\xc0\x02\x00\x00\x40",  # a map whose key is a list
)
HALF = BODY + b"\x73\x00\x00\xd8\x00"  # half a character


class Sending(CommandPeer):
    """Sends these octets as messages, and keeps their outcomes."""

    def __init__(self, *messages: bytes) -> None:
        super().__init__()
        self.left = list(messages)
        self.outcomes: list[tuple[int, bool]] = []

    def on_link_opening(self, event: Any) -> None:
        event.link.source.copy(event.link.remote_source)

    def on_sendable(self, event: Any) -> None:
        while event.link.credit and self.left:
            event.link.delivery(str(len(self.left)))
            event.link.stream(self.left.pop(0))
            event.link.advance()

    def on_settled(self, event: Any) -> None:
        self.outcomes.append((event.delivery.remote_state, event.delivery.remote.undeliverable))


def received(peer: Sending, *more: str) -> tuple[str, list[str]]:
    """What the command prints at a peer, and its other lines."""
    return told(peer, "receive", "q", *more)


def test_a_message_that_cannot_be_decoded_goes_back() -> None:
    """It does not come here again, and those behind it are received."""
    peer = Sending(*UNREADABLE, Message(body="after").encode())
    printed, lines = received(peer, "--count", "1")
    assert printed == "after\n"
    assert [line.partition(": ")[0] for line in lines[:-1]] == ["a message cannot be decoded, and goes back"] * 3
    assert peer.outcomes == [(Delivery.MODIFIED, True)] * 3 + [(Delivery.ACCEPTED, False)]


def test_half_a_character_is_printed_all_the_same() -> None:
    """As its escape, which JSON has for it, too."""
    assert received(Sending(HALF), "--count", "1")[0] == "\\ud800\n"
    printed, _ = received(Sending(HALF), "--count", "1", "--json")
    assert json.loads(printed)["body"] == "\ud800"
