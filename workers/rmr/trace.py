"""RMR frames as lines of the protocol trace; the offsets are those of the RMR library's message header.

[C17]:RMR: <- @1000 [sub-id=10, source="app0:4560", meid="gnb1", call=1, request] (67) "the payload…"
"""

import struct
from typing import Final

from workers.control.trace import quoted

_TRANSPORT: Final = 50  # octets before the header
_HEADER: Final = 280  # octets of a header that ends with the sender's address
_CALL: Final = 0x04  # flag: a blocking call waits for the reply


def described(sent: bool, head: bytes, payload: bytes) -> str:
    """Return the text of a frame; ``head`` is its valid part before the payload, ``payload`` a beginning."""
    header = head[_TRANSPORT:]
    (kind, length) = struct.unpack_from(">ii", header)
    (subscription,) = struct.unpack_from(">i", header, 212)
    own, trace, d1, _ = struct.unpack_from(">4I", header, 196)
    call = header[own + trace] if d1 else 0
    fields = [f"sub-id={subscription}", f"source={_text(header[76:140])}"]
    if own >= _HEADER:
        fields.append(f"address={_text(header[216:280])}")
    if header[140]:
        fields.append(f"meid={_text(header[140:172])}")
    for name, at in (("transaction", 12), ("sid", 44)):
        if value := header[at : at + 32].rstrip(b"\0"):
            fields.append(f"{name}={quoted(value)}")
    if trace:
        fields.append(f"trace={quoted(header[own : own + trace])}")
    if call:
        fields.append(f"call={call}")
    if header[192] & _CALL:
        fields.append("request")
    return f"RMR: {'->' if sent else '<-'} @{kind} [{', '.join(fields)}] ({length}) {quoted(payload)}"


def _text(field: bytes) -> str:
    return quoted(field.partition(b"\0")[0])
