"""Protocol trace: frames as log lines, never with a secret."""

import logging

import pytest

from shm.memory.journal import TRACE
from workers.control.message_log import MessageLog
from workers.control.trace import PROTOCOL, Tracing, hidden, line


class Frames:
    def __init__(self) -> None:
        self.asked: list[object] = []

    def messages(self, index: int, generation: int, wanted: bool) -> None:
        """Nobody wants them here."""

    def all(self, tracing: bool) -> None:
        self.asked.append(tracing)

    def one(self, index: int, generation: int, setting: bool | None) -> None:
        self.asked.append((index, generation, setting))


def test_all_connections_follow_the_level_of_the_log() -> None:
    frames = Frames()
    tracing = Tracing(frames, MessageLog(frames, int))
    before = PROTOCOL.level
    try:
        for level in (logging.INFO, TRACE, logging.DEBUG):
            PROTOCOL.setLevel(level)
            tracing.follow_log()
    finally:
        PROTOCOL.setLevel(before)
    tracing.set(3, 7, True)
    assert frames.asked == [False, True, False, (3, 7, True)]


@pytest.mark.parametrize(
    ("frame", "shown"),
    [
        (
            'FRAME: 0 <- @sasl-init(65) [mechanism=:PLAIN, initial-response=b"\\x00me\\x00a\\"] pass"]',
            'FRAME: 0 <- @sasl-init(65) [mechanism=:PLAIN, initial-response="(hidden)"]',
        ),
        (
            'FRAME: 0 <- @sasl-response(67) [response=b"c=biws,p=proof"]',
            'FRAME: 0 <- @sasl-response(67) [response="(hidden)"]',
        ),
        (
            'FRAME: 0 -> @sasl-outcome(68) [code=0x0, additional-data=b"v=x"]',
            'FRAME: 0 -> @sasl-outcome(68) [code=0x0, additional-data="(hidden)"]',
        ),
        (  # cut by the engine
            'FRAME: 0 <- @sasl-init(65) [mechanism=:PLAIN, initial-response=b"\\x00me\\x00secret\\xc3 ... (truncated)',
            'FRAME: 0 <- @sasl-init(65) [mechanism=:PLAIN, initial-response="(hidden)"',
        ),
        ("FRAME:   <- SASL", "FRAME:   <- SASL"),
    ],
)
def test_secrets_are_hidden(frame: str, shown: str) -> None:
    assert hidden(frame) == shown


@pytest.mark.parametrize("asked", [True, False])
def test_a_frame_is_one_record(asked: bool) -> None:
    """It says by itself whether it is to be written whatever the level."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.addFilter(records.append)
    PROTOCOL.addHandler(handler)
    try:
        line(17, 'FRAME: 0 <- @sasl-init(65) [initial-response=b"secret %s"]\n', asked)
    finally:
        PROTOCOL.removeHandler(handler)
    (record,) = records
    assert record.getMessage() == '[C17]:FRAME: 0 <- @sasl-init(65) [initial-response="(hidden)"]'
    assert (record.levelno, getattr(record, "always", None)) == (TRACE, asked)
    assert record.filename == "test_trace.py"
