"""The sections of a message by their symbolic descriptors (AMQP 1.0 part 3.2), from shm/sections.h."""

from typing import Final

from shm import native

SECTIONS: Final = native.SECTIONS


def section_code(descriptor: object) -> int | None:
    """The number of a section from its descriptor, a number or a name; None: it is neither."""
    if isinstance(descriptor, str):
        return SECTIONS.get(descriptor)
    return int(descriptor) if isinstance(descriptor, int) else None
