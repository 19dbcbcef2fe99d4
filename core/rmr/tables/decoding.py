"""Decodes octets of RMR's control path to text: octets from a peer or a file become text only here.

Each field has its own rules:

    field                      octets                              otherwise
    an endpoint, a sender      UTF-8 without control characters,   the table is refused
                               at most LONGEST_NAME
    the id of a table or map   the same, at most LONGEST_ID        the table or map is refused
    a number                   ASCII digits that fit into 32 bits  the table is refused; or the nearest used
    a managed entity (MEID)    any, at most 31                     they are kept as they are
    a source, a requester      as an endpoint                      the message is dropped and logged
    the text of a state        any                                 they are shown with escapes, and shortened

A text from ``lossless`` holds octets that are not UTF-8 as lone surrogates. JSON, AMQP and terminals take no
such text, so only MEIDs stay so, and ``shm.contract.text.printable`` makes what people read.
"""

import re
from typing import Final

from shm.contract.text import printable

LONGEST_NAME: Final = 260  # octets of an endpoint: 253 of a host's name, a colon, brackets and five digits
LONGEST_ID: Final = 255  # octets; the library answers with messages of 1,024 octets that repeat the id
LONGEST_RECORD: Final = 1 << 20  # octets, enough for the largest numbers of groups, members and senders
LONGEST_SHOWN: Final = 400  # characters of foreign text in a reason or a line of the log
INT32: Final = range(-(1 << 31), 1 << 31)

LOSSLESS: Final = "surrogateescape"  # error handler of decoders that keep octets that are not UTF-8

_NUMBER: Final = re.compile(r"-?[0-9]+")
_DIGITS: Final = 64  # longer numbers never fit, and int() is slow for them
_STRAY: Final = re.compile("[\ud800-\udfff]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class DecodingError(ValueError):
    """Octets that are invalid in their field. The text names the field and the reason."""


def lossless(octets: bytes) -> str:
    """Decode octets to text and keep those that are not UTF-8."""
    return octets.decode("utf-8", LOSSLESS)


def octets_of(text: str) -> bytes:
    """Encode a text of ``lossless`` back to its octets."""
    return text.encode("utf-8", LOSSLESS)


def stray(text: str) -> str:
    """Return a text on the first octet that is not UTF-8, or an empty text."""
    if text.isascii() or (found := _STRAY.search(text)) is None:
        return ""
    return f"is not UTF-8 (octet 0x{octets_of(found[0])[0]:02x})"


def fault(text: str, longest: int = LONGEST_NAME) -> str:
    """Return why a text is no valid name or id, to follow the field's name, or an empty text."""
    if why := stray(text):
        return why
    if found := _CONTROL.search(text):
        return f"has a control character (octet 0x{ord(found[0]):02x})"
    return f"is longer than {longest} octets" if len(text) * 4 > longest < len(text.encode()) else ""


def name(text: str, field: str) -> str:
    """Return the text if it is a valid name. Raises DecodingError."""
    if why := fault(text):
        raise DecodingError(f"{field} {printable(text, 80)!r} {why}")
    return text


def number(text: str) -> int | None:
    """Return a whole number, limited to 64 bits, or None if the text is none."""
    if not _NUMBER.fullmatch(text):
        return None
    return int(text) if len(text) <= _DIGITS else (-1 << 63 if text.startswith("-") else (1 << 63) - 1)


def number_before(text: str) -> int:
    """Return the number with which a text begins, as strtol(3) does; 0 without one."""
    found = _NUMBER.match(text)
    return clamped(number(found[0]) or 0) if found else 0


def clamped(value: int) -> int:
    """Return the nearest 32-bit number."""
    return max(INT32.start, min(value, INT32.stop - 1))
