"""Frames of a login (AMQP 1.0 part 5.3)."""

import struct
from typing import Any

from tests.support.clients.wire import described

SASL_HEADER = b"AMQP\3\1\0\0"
MECHANISMS, INIT, CHALLENGE, RESPONSE, OUTCOME = range(0x40, 0x45)


def sasl(code: int, *fields: Any) -> bytes:
    """Such a frame."""
    body = described(code, *fields)
    return struct.pack(">IBBH", 8 + len(body), 2, 1, 0) + body
