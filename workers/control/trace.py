"""Protocol trace as log lines: `[C17]:FRAME: 0 <- @transfer(20) [...]`, module PROTOCOL, level trace.

Nothing a peer proves its identity with is shown.
"""

import logging
import re
from typing import Final, Protocol

from shm.journal import TRACE
from workers.control.message_log import MessageLog

PROTOCOL = logging.getLogger("PROTOCOL")

_SHOWN: Final = [
    "\\" + chr(one) if chr(one) in '"\\' else chr(one) if 32 <= one < 127 else f"\\x{one:02x}"
    for one in range(256)
]

_SASL: Final = "@sasl-"
_SECRET: Final = re.compile(r'\b(initial-response|response|challenge|additional-data)=b?".*"')


class Frames(Protocol):
    """What is asked of workers.loop.pump.Trace."""

    def all(self, tracing: bool) -> None: ...
    def one(self, index: int, generation: int, wish: bool | None) -> None: ...


class Tracing:
    """Which connections are traced: those whose ``wish`` says so, and all others while the log wants it."""

    def __init__(self, frames: Frames, messages: MessageLog) -> None:
        self._frames = frames
        self.messages = messages

    def follow_log(self) -> None:
        """The log may have changed."""
        self._frames.all(PROTOCOL.isEnabledFor(TRACE))

    def wish(self, index: int, generation: int, on: bool) -> None:
        """Trace this connection, or not, whatever the log's level says."""
        self._frames.one(index, generation, on)


def line(number: int, text: str, asked: bool) -> None:
    """Log a frame of connection ``number``; one that was asked for is logged whatever the level."""
    if _SASL in text:
        text = hidden(text)
    source, at, _, _ = PROTOCOL.findCaller(stacklevel=2)
    message, extra = f"[C{number}]:{text.rstrip()}", {"always": asked}
    record = PROTOCOL.makeRecord("PROTOCOL", TRACE, source, at, message, (), None, extra=extra)
    PROTOCOL.handle(record)


def quoted(octets: bytes) -> str:
    """Octets as a frame's line shows them: text as it is, everything else by its number."""
    return '"' + "".join(_SHOWN[one] for one in octets) + '"'


def hidden(text: str) -> str:
    """A frame of SASL without what was said to prove an identity."""
    return _SECRET.sub(r'\1="(hidden)"', text)
