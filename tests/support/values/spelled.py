"""Messages whose sections stand there by another of the descriptors that AMQP allows."""

from collections.abc import Iterable
from itertools import cycle

from proton import Data

from shm.contract.sections import SECTIONS

NUMBER, LONG_NUMBER, NAME, LONG_NAME = 0x53, 0x80, 0xA3, 0xB3  # constructors of a descriptor
SPELLINGS = (NUMBER, LONG_NUMBER, NAME, LONG_NAME)
_NAMES = {code: name.encode() for name, code in SECTIONS.items()}


def spelled(message: bytes, spellings: Iterable[int]) -> bytes:
    """The message, its sections' descriptors in these forms, again and again."""
    parts = []
    forms = cycle(spellings)
    while message:
        size = Data().decode(message)
        parts += [descriptor(message[2], next(forms)), message[3:size]]
        message = message[size:]
    return b"".join(parts)


def descriptor(code: int, form: int) -> bytes:
    """The beginning of a section, up to its value."""
    number = {NUMBER: 1, LONG_NUMBER: 8}.get(form)
    if number is not None:
        return bytes((0, form)) + code.to_bytes(number, "big")
    name = _NAMES[code]
    return bytes((0, form)) + len(name).to_bytes(1 if form == NAME else 4, "big") + name
