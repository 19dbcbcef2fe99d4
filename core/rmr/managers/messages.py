"""Messages between a Route Manager and applications (RMR's Route Table Guide, Route Manager Communications).

Only core.rmr.tables.decoding decodes a peer's octets to text.
"""

import re
from typing import Final, NamedTuple

from core.rmr.tables import decoding
from core.rmr.tables.warning import BadTableError
from shm.contract.text import printable

TABLE: Final = 20  # records of tables and maps
REQUEST: Final = 21  # an application requests its table
STATE: Final = 22  # what became of a table
NO_ID: Final = "<id-missing>"
REASON_LENGTH: Final = 400
LONGEST_WORDS: Final = 2048  # octets of a request or state message that are examined
LONGEST_START: Final = 64 << 10  # octets of a table that is refused in which its start record is looked for
COUNT_REASON: Final = "missing table records"  # this reason ends with a line end of its own

_START: Final = re.compile(rb"^[ \t]*(?:newrt|updatert|meid_map)[ \t]*\|(?![ \t]*end)[^|\n]*\|?([^\n#|]*)", re.M)


class Heard(NamedTuple):
    """A control message. ``answer`` is the address of its connection, ``host`` the peer's ip:port.

    ``source`` is the sender's name in the message; ``call`` is the id of a blocking call, or 0. With a
    ``fault`` the header is unusable, and ``source`` is only for display.
    """

    kind: int
    source: str
    payload: bytes
    answer: str
    host: str = ""
    xact: bytes = b""
    call: int = 0
    fault: str = ""


class Said(NamedTuple):
    """A control message of this router. With an empty ``source`` answers use the same connection."""

    kind: int
    payload: bytes
    source: str = ""
    subscription: int = -1
    xact: bytes = b""
    call: int = 0


class State(NamedTuple):
    """A state message. ``about`` is a table id, followed by a reason."""

    ok: bool
    about: str

    def names(self, table_id: str) -> bool:
        """Whether it is about this table.

        The id is compared and not cut out, because it may contain blanks.
        """
        return self.about == table_id or self.about.startswith(table_id + " ")

    def reason(self, table_id: str) -> str:
        """Return its text after the id."""
        return self.about.removeprefix(table_id).strip()


def request(endpoint: str, seconds: int) -> bytes:
    """Encode a request of the application that listens at ``endpoint``, with UNIX time in seconds."""
    return f"{endpoint} ts={seconds}\n\0".encode()


def requester(payload: bytes) -> str:
    """Return where the requesting application listens, or an empty text. Raises DecodingError."""
    words = decoding.lossless(_words(payload)).split()
    return decoding.name(words[0], "the request's first word") if words else ""


def state(table_id: str | bytes, reason: str = "", bad: bool = False) -> bytes:
    """Encode what became of a table, by the id as its sender gave it."""
    named = table_id if isinstance(table_id, bytes) else decoding.octets_of(table_id)
    end = "\n" if reason.startswith(COUNT_REASON) else ""
    reason = printable(" ".join(reason.split()), REASON_LENGTH) + end
    return b"%s %s %s\n\0" % (b"ERR" if bad else b"OK", named or NO_ID.encode(), reason.encode())


def state_of(payload: bytes) -> State | None:
    """Decode a state message for display. Return None if it is none."""
    word, _, rest = decoding.lossless(_words(payload)).partition(" ")
    about = printable(rest.strip(), decoding.LONGEST_ID + REASON_LENGTH)
    return State(word == "OK", about) if word in ("OK", "ERR") else None


def refusal(payload: bytes, reason: str) -> BadTableError:
    """Return the error for a table that is refused unread. Its id comes from its start record."""
    found = _START.search(payload[:LONGEST_START].partition(b"\0")[0])
    named = found[1].strip()[: decoding.LONGEST_ID] if found else b""
    return BadTableError(decoding.lossless(named), reason, [])


def records(payload: bytes, compatible: bool) -> str:
    """Return the records of a message. The last one is ended, because none continues in the next message.

    For the RMR library a NUL ends the text; strict parsing only ignores those at its end.
    """
    text = decoding.lossless(payload)
    text = text.partition("\0")[0] if compatible else text.rstrip("\0")
    return text if not text or text.endswith("\n") else text + "\n"


def _words(payload: bytes) -> bytes:
    return payload[:LONGEST_WORDS].partition(b"\0")[0].strip()
