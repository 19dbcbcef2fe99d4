"""Whatever octets come as values of AMQP: they are refused, or what they say is written and read as the same."""

import math
from contextlib import suppress
from typing import Any

from core.amqp import codec, message

LONG = 2**63  # what a long has room for; a ulong may be larger


def plain(thing: Any) -> bool:
    """Whether the codec writes this value, and reads the same."""
    if isinstance(thing, dict):
        return all(plain(part) for pair in thing.items() for part in pair)
    if isinstance(thing, list):
        return all(map(plain, thing))
    if isinstance(thing, float):
        return not math.isnan(thing)
    if isinstance(thing, int):
        return thing < LONG
    return thing is None or isinstance(thing, (str, bytes))


def one(octets: bytes) -> None:
    with suppress(codec.WireError):
        list(message.sections(octets))
    with suppress(codec.WireError):
        list(message.sections(octets, fields=[]))
    parser = codec.Parser(octets)
    try:
        thing = parser.value()
    except codec.WireError:
        return
    assert 0 < parser.at <= len(octets)
    if plain(thing):
        assert codec.Parser(codec.value(thing)).value() == thing
