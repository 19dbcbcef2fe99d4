"""Whatever a Route Manager sends: tables, maps and refusals are the same for any pieces, in both ways of reading."""

from contextlib import suppress
from typing import Any

from core.rmr.managers import envelope, messages
from core.rmr.tables import decoding
from core.rmr.tables.parser import Parser


def results(text: str, compatible: bool, step: int) -> list[Any]:
    parser = Parser(compatible)
    found: list[Any] = []
    for at in range(0, len(text), step):
        found += map(repr, parser.feed(text[at : at + step]))
    found += map(repr, parser.finish())
    return [*found, repr(parser.warnings), repr(parser.outside)]


def one(octets: bytes) -> None:
    """The first octet chooses how the rest is read."""
    how, payload = (octets[0] if octets else 0), octets[1:]
    if how & 1:
        with suppress(envelope.EnvelopeError):
            envelope.opened(payload, "answer", "host")
        messages.state_of(payload)
        with suppress(decoding.DecodingError):
            messages.requester(payload)
        return
    text = decoding.lossless(payload)
    assert decoding.octets_of(text) == payload
    compatible = bool(how & 2)
    assert results(text, compatible, max(1, len(text))) == results(text, compatible, 1 + (how >> 2))
    messages.records(payload, compatible)
