"""The numbers of message sections by symbolic descriptor (AMQP 1.0 part 3.2), from shm/codec/sections.h."""

from typing import Final

from shm import native

SECTIONS: Final = native.SECTIONS


def section_code(descriptor: object) -> int | None:
    """Return a section's number from its descriptor, a number or symbol; None for an unknown descriptor."""
    if isinstance(descriptor, str):
        return SECTIONS.get(descriptor)
    return int(descriptor) if isinstance(descriptor, int) else None
