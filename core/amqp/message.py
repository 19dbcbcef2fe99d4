"""Encodes and decodes the messages that the core itself sends and receives (AMQP 1.0 part 3.2)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from core.amqp import codec as wire
from shm.contract.sections import section_code

HEADER, DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, PROPERTIES, APPLICATION, DATA, SEQUENCE, VALUE, FOOTER = range(
    0x70, 0x79
)
BODIES: Final = (DATA, SEQUENCE, VALUE)
TO, REPLY_TO, CORRELATION_ID = 2, 4, 5  # indices in the properties
_MOST_FIELDS: Final = 13  # of the properties


def composed(properties: Mapping[int, bytes], application: Mapping[str, object], body: object) -> bytes:
    """Encode a message that is not durable, with an amqp-value as its body.

    ``properties`` holds encoded fields by their indices in that section.
    """
    parts = [wire.section(HEADER, wire.sequence([wire.FALSE]))]
    if properties:
        fields = [properties.get(at, wire.NULL) for at in range(max(properties) + 1)]
        parts.append(wire.section(PROPERTIES, wire.sequence(fields)))
    if application:
        parts.append(wire.section(APPLICATION, wire.value(application)))
    return b"".join((*parts, wire.section(VALUE, wire.value(body))))


def sections(
    content: bytes, most: int = wire.MOST_VALUES, fields: list[bytes] | None = None
) -> Iterator[tuple[int, Any, bytes]]:
    """Yield the number, the value and the encoded value of each section.

    With ``fields``, the properties have no value: that list receives their encoded fields, up to a malformed
    one. Raises WireError for more than ``most`` values, and unless the sections are those of one message.
    """
    parser = wire.Parser(content, most)
    last = 0
    while not parser.finished:
        code = section_code(parser.descriptor())
        if code is None or not HEADER <= code <= FOOTER or code <= last:
            raise wire.WireError("the sections are not those of a message, each once and in order")
        if code in BODIES and last in BODIES:
            raise wire.WireError("the message has two kinds of body")
        last, at, value = code, parser.at, None
        if code == PROPERTIES and fields is not None:
            for field in parser.fields():
                if len(fields) == _MOST_FIELDS:
                    raise wire.WireError(f"the properties have more than {_MOST_FIELDS} fields")
                fields.append(field)
        else:
            value = parser.value()
        yield code, value, content[at : parser.at]
