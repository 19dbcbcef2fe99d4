"""The border of RMR's control path: octets from a peer or a file become text here, and nowhere else.

What RMR text may be, field by field:

    field                      octets                              otherwise
    an endpoint, a sender      UTF-8 without control characters,   the table is refused
                               at most LONGEST_NAME
    the id of a table or map   the same, at most LONGEST_ID        the table or map is refused
    a number                   ASCII digits that fit into 32 bits  the table is refused; compat: the nearest
    a managed entity (MEID)    any, at most 31                     carried as they are
    a source, a requester      as an endpoint                      the message is dropped, and said
    the text of a state        any                                 shown with escapes, and cut

A text that was decoded by ``lossless`` holds octets that are not UTF-8 as lone surrogates. JSON, AMQP and
terminals take none, so only MEIDs stay so, and ``shm.contract.text.printable`` makes what people read.
"""

import re
from typing import Final

from shm.contract.text import printable

LONGEST_NAME: Final = 260  # octets of an endpoint: 253 of a host's name, a colon, brackets and five digits
LONGEST_ID: Final = 255  # octets; the library answers with messages of 1,024 octets that repeat the id
LONGEST_RECORD: Final = 1 << 20  # octets: groups, members and senders as many and as long as may be
LONGEST_SHOWN: Final = 400  # characters of what somebody else has written, in a reason or a line of the log
INT32: Final = range(-(1 << 31), 1 << 31)

LOSSLESS: Final = "surrogateescape"  # the error handler of decoders that keep what is not UTF-8

_NUMBER: Final = re.compile(r"-?[0-9]+")
_DIGITS: Final = 64  # more never fit; int() has a limit of its own, and takes long for many
_STRAY: Final = re.compile("[\ud800-\udfff]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class BorderError(ValueError):
    """Octets that are no text of the kind that belongs there: the message names the field and says why."""


def lossless(octets: bytes) -> str:
    """Octets as text; what is not UTF-8 is kept."""
    return octets.decode("utf-8", LOSSLESS)


def octets_of(text: str) -> bytes:
    """The octets of what ``lossless`` made of them."""
    return text.encode("utf-8", LOSSLESS)


def stray(text: str) -> str:
    """Which octet of a text is not UTF-8, for a reason; empty: none."""
    if text.isascii() or (found := _STRAY.search(text)) is None:
        return ""
    return f"is not UTF-8 (octet 0x{octets_of(found[0])[0]:02x})"


def fault(text: str, longest: int = LONGEST_NAME) -> str:
    """Why a text can be no name and no id, behind the name of its field; empty: it can."""
    if why := stray(text):
        return why
    if found := _CONTROL.search(text):
        return f"has a control character (octet 0x{ord(found[0]):02x})"
    return f"is longer than {longest} octets" if len(text) * 4 > longest < len(text.encode()) else ""


def name(text: str, field: str) -> str:
    """The same text, which is a name. Raises BorderError."""
    if why := fault(text):
        raise BorderError(f"{field} {printable(text, 80)!r} {why}")
    return text


def number(text: str) -> int | None:
    """A whole number, brought into 64 bits if it has more; None: the text is none."""
    if not _NUMBER.fullmatch(text):
        return None
    return int(text) if len(text) <= _DIGITS else (-1 << 63 if text.startswith("-") else (1 << 63) - 1)


def number_before(text: str) -> int:
    """The number that a text begins with, as C reads it; 0: it begins with none."""
    found = _NUMBER.match(text)
    return clamped(number(found[0]) or 0) if found else 0


def clamped(value: int) -> int:
    """The nearest that fits into 32 bits."""
    return max(INT32.start, min(value, INT32.stop - 1))
