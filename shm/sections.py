"""The sections of a message by their symbolic descriptors (AMQP 1.0 part 3.2; shm/scan.h has the same)."""

from typing import Final

SECTIONS: Final = {
    "amqp:header:list": 0x70,
    "amqp:delivery-annotations:map": 0x71,
    "amqp:message-annotations:map": 0x72,
    "amqp:properties:list": 0x73,
    "amqp:application-properties:map": 0x74,
    "amqp:data:binary": 0x75,
    "amqp:amqp-sequence:list": 0x76,
    "amqp:amqp-value:*": 0x77,
    "amqp:footer:map": 0x78,
}


def section_code(descriptor: object) -> int | None:
    """The number of a section from its descriptor, a number or a name; None: it is neither."""
    if isinstance(descriptor, str):
        return SECTIONS.get(descriptor)
    return int(descriptor) if isinstance(descriptor, int) else None
