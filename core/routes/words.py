"""What is said between a Route Manager and applications (spec, Route Manager Communications; facts rmr 3)."""

import re
from typing import Final, NamedTuple

from core.routes.oddity import BadTableError

TABLE: Final = 20  # records of tables and maps
REQUEST: Final = 21  # an application wants its table
STATE: Final = 22  # what has become of a table
NO_ID: Final = "<id-missing>"
XACT_LENGTH: Final = 32  # octets of a transaction id
REASON_LENGTH: Final = 400
COUNT_REASON: Final = "missing table records"  # this one brings a line end of its own

_START: Final = re.compile(
    r"^[ \t]*(?:newrt|updatert|meid_map)[ \t]*\|(?![ \t]*end)[^|\n]*\|?([^\n#|]*)", re.M
)


class Heard(NamedTuple):
    """A control message. ``answer`` is the address of the connection it came on, ``host`` its peer's ip:port.

    ``source`` is what the message says its sender is; ``call``: the id of a blocking call, 0: none.
    """

    kind: int
    source: str
    payload: bytes
    answer: str
    host: str = ""
    xact: bytes = b""
    call: int = 0


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
    """Where the application that asks listens; empty: it does not say."""
    words = _text(payload).split()
    return words[0] if words else ""


def state(table_id: str, reason: str = "", bad: bool = False) -> bytes:
    """The payload that says what has become of a table."""
    reason = " ".join(reason.split())[:REASON_LENGTH] + ("\n" if reason.startswith(COUNT_REASON) else "")
    return f"{'ERR' if bad else 'OK'} {table_id or NO_ID} {reason}\n\0".encode("utf-8", "surrogateescape")


def state_of(payload: bytes) -> State | None:
    """What a state message says; None: it is none."""
    word, _, rest = _text(payload).partition(" ")
    return State(word == "OK", rest.strip()) if word in ("OK", "ERR") else None


def refusal(payload: bytes, reason: str) -> BadTableError:
    """The error about a table that is not even read; its id is looked up in its start record."""
    found = _START.search(_text(payload))
    return BadTableError(found[1].strip() if found else "", reason, [])


def records(payload: bytes, compatible: bool) -> str:
    """The records in a message, the last one ended: none goes on in the next message (facts rmr 4).

    A NUL ends the text for the RMR library; read strictly, only those at its end are no part of it.
    """
    text = payload.decode("utf-8", "surrogateescape")
    text = text.partition("\0")[0] if compatible else text.rstrip("\0")
    return text if not text or text.endswith("\n") else text + "\n"


def _text(payload: bytes) -> str:
    return payload.partition(b"\0")[0].decode("utf-8", "surrogateescape").strip()
