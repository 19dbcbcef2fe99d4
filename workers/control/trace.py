"""The protocol trace: lines like `[C17]:FRAME: 0 <- @transfer(20) [...]`, module PROTOCOL, level trace.

The lines hide all SASL data that proves an identity.
"""

import logging
import re
from typing import Final, Protocol

from shm.memory.journal import TRACE
from workers.control.message_log import MessageLog

PROTOCOL = logging.getLogger("PROTOCOL")

_SHOWN: Final = [
    "\\" + chr(one) if chr(one) in '"\\' else chr(one) if 32 <= one < 127 else f"\\x{one:02x}" for one in range(256)
]

_SASL: Final = "@sasl-"
# To the quote that ends it, or to the end of a line that the engine has cut.
_SECRET: Final = re.compile(r'\b(initial-response|response|challenge|additional-data)=b?"(?:.*"(?=[^"]*\]$)|.*)')


class Frames(Protocol):
    """The part of workers.loop.pump.Trace that the protocol trace uses."""

    def all(self, tracing: bool) -> None: ...
    def one(self, index: int, generation: int, setting: bool | None) -> None: ...


class Tracing:
    """Decides which connections are traced: by their own setting, or else by the log's level."""

    def __init__(self, frames: Frames, messages: MessageLog) -> None:
        self._frames = frames
        self.messages = messages

    def follow_log(self) -> None:
        """Apply the log's current level to all connections without a setting of their own."""
        self._frames.all(PROTOCOL.isEnabledFor(TRACE))

    def set(self, index: int, generation: int, on: bool) -> None:
        """Trace a connection or do not, regardless of the log's level."""
        self._frames.one(index, generation, on)


def line(number: int, text: str, asked: bool) -> None:
    """Log a frame of connection ``number``; one ``asked`` for is logged regardless of the level."""
    if _SASL in text:
        text = hidden(text)
    source, at, _, _ = PROTOCOL.findCaller(stacklevel=2)
    message, extra = f"[C{number}]:{text.rstrip()}", {"always": asked}
    record = PROTOCOL.makeRecord("PROTOCOL", TRACE, source, at, message, (), None, extra=extra)
    PROTOCOL.handle(record)


def quoted(octets: bytes) -> str:
    """Return octets as a frame's line shows them: printable ASCII as text, all others in hexadecimal."""
    return '"' + "".join(_SHOWN[one] for one in octets) + '"'


def hidden(text: str) -> str:
    """Return a SASL frame without the data that proves an identity."""
    return _SECRET.sub(r'\1="(hidden)"', text)
