"""What is said between a Route Manager and applications (spec, Route Manager Communications; facts rmr 3).

Octets of a peer become text by core.rmr.border alone.
"""

import re
from typing import Final, NamedTuple

from core.rmr import border
from core.rmr.warning import BadTableError
from shm.contract.text import printable

TABLE: Final = 20  # records of tables and maps
REQUEST: Final = 21  # an application wants its table
STATE: Final = 22  # what has become of a table
NO_ID: Final = "<id-missing>"
REASON_LENGTH: Final = 400
LONGEST_WORDS: Final = 2048  # octets of a request or a state message; there is no sense in more
COUNT_REASON: Final = "missing table records"  # this one brings a line end of its own

_START: Final = re.compile(
    rb"^[ \t]*(?:newrt|updatert|meid_map)[ \t]*\|(?![ \t]*end)[^|\n]*\|?([^\n#|]*)", re.M
)


class Heard(NamedTuple):
    """A control message. ``answer`` is the address of the connection it came on, ``host`` its peer's ip:port.

    ``source`` is what the message says its sender is; ``call``: the id of a blocking call, 0: none. With a
    ``fault`` the header cannot be used, and ``source`` is only for people.
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
    """A control message of our own; ``source`` empty: answers come back on the same connection."""

    kind: int
    payload: bytes
    source: str = ""
    subscription: int = -1
    xact: bytes = b""
    call: int = 0


class State(NamedTuple):
    """A state message: ``about`` is a table id, and a reason behind it."""

    ok: bool
    about: str

    def names(self, table_id: str) -> bool:
        """Whether it is about this table. An id may have blanks in it, so it is compared, not cut out."""
        return self.about == table_id or self.about.startswith(table_id + " ")

    def reason(self, table_id: str) -> str:
        """What it says beside the id."""
        return self.about.removeprefix(table_id).strip()


def request(endpoint: str, seconds: int) -> bytes:
    """The payload of a request by the application that listens at ``endpoint``; a UNIX time."""
    return f"{endpoint} ts={seconds}\n\0".encode()


def requester(payload: bytes) -> str:
    """Where the application that asks listens; empty: it does not say. Raises BorderError."""
    words = border.lossless(_words(payload)).split()
    return border.name(words[0], "the request's first word") if words else ""


def state(table_id: str | bytes, reason: str = "", bad: bool = False) -> bytes:
    """The payload that says what has become of a table, whose sender knows it by the octets that it gave."""
    named = table_id if isinstance(table_id, bytes) else border.octets_of(table_id)
    end = "\n" if reason.startswith(COUNT_REASON) else ""
    reason = printable(" ".join(reason.split()), REASON_LENGTH) + end
    return b"%s %s %s\n\0" % (b"ERR" if bad else b"OK", named or NO_ID.encode(), reason.encode())


def state_of(payload: bytes) -> State | None:
    """What a state message says, for people; None: it is none."""
    word, _, rest = border.lossless(_words(payload)).partition(" ")
    about = printable(rest.strip(), border.LONGEST_ID + REASON_LENGTH)
    return State(word == "OK", about) if word in ("OK", "ERR") else None


def refusal(payload: bytes, reason: str) -> BadTableError:
    """The error about a table that is not even read; its id is looked up in its start record."""
    found = _START.search(payload.partition(b"\0")[0])
    named = found[1].strip()[: border.LONGEST_ID] if found else b""
    return BadTableError(border.lossless(named), reason, [])


def records(payload: bytes, compatible: bool) -> str:
    """The records in a message, the last one ended: none goes on in the next message (facts rmr 4).

    A NUL ends the text for the RMR library; read strictly, only those at its end are no part of it.
    """
    text = border.lossless(payload)
    text = text.partition("\0")[0] if compatible else text.rstrip("\0")
    return text if not text or text.endswith("\n") else text + "\n"


def _words(payload: bytes) -> bytes:
    return payload[:LONGEST_WORDS].partition(b"\0")[0].strip()
