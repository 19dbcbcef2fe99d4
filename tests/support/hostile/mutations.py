"""Octets that are nearly right: what a valid conversation becomes in hostile hands."""

import random
import struct
from collections.abc import Callable, Sequence

MOST_OCTETS = 256 * 1024  # of a part that grows
HUGE = [struct.pack(">I", number) for number in (0x7F, 0xFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)]
NESTED = [
    b"\0" * 64,  # descriptors of descriptors
    b"\xd0\xff\xff\xff\xff\0\0\0\1" * 40,
    b"\xc0\xfe\x01" * 60,
    b"\xf0\0\0\xff\xff\0\0\xff\xff\xf0" * 20,
    b"\xd1\0\0\1\0\0\0\0\2\xa1\1a" * 20,
    b"[" * 2000,
    b"\x81" * 500 + b"\xbf" * 500,  # of CBOR
]


def octet(chance: random.Random, part: bytearray) -> None:
    """One octet becomes another one, often one that is no ASCII."""
    part[chance.randrange(len(part))] = chance.choice([chance.randrange(256), chance.randrange(0x80, 0x100), 0])


def bit(chance: random.Random, part: bytearray) -> None:
    """One bit flips."""
    part[chance.randrange(len(part))] ^= 1 << chance.randrange(8)


def huge(chance: random.Random, part: bytearray) -> None:
    """A number becomes as large as there are."""
    at = chance.randrange(len(part))
    part[at : at + 4] = chance.choice(HUGE)


def cut(chance: random.Random, part: bytearray) -> None:
    """A piece is missing."""
    at = chance.randrange(len(part))
    del part[at : at + chance.choice([1, 2, 4, 8, 100])]


def doubled(chance: random.Random, part: bytearray) -> None:
    """A piece comes again, or thousands of times."""
    at = chance.randrange(len(part))
    piece = part[at : at + chance.choice([1, 8, 100])]
    part[at:at] = piece * chance.choice([1, 1, 10, 1000, 3000])


def nested(chance: random.Random, part: bytearray) -> None:
    """Values in values in values."""
    at = chance.randrange(len(part))
    part[at:at] = chance.choice(NESTED)


def high(chance: random.Random, part: bytearray) -> None:
    """A stretch of octets of which none is ASCII."""
    at = chance.randrange(len(part))
    size = min(chance.choice([1, 4, 30, 300]), len(part) - at)
    part[at : at + size] = bytes(chance.randrange(0x80, 0x100) for _ in range(size))


WAYS: list[Callable[[random.Random, bytearray], None]] = [octet, octet, bit, bit, huge, cut, doubled, nested, high]


def mutated(chance: random.Random, part: bytes) -> bytes:
    """The octets, changed in one to three ways."""
    changed = bytearray(part)
    for _ in range(chance.choice([1, 1, 2, 3])):
        if changed:
            chance.choice(WAYS)(chance, changed)
    return bytes(changed[:MOST_OCTETS])


def rearranged(chance: random.Random, parts: Sequence[bytes]) -> list[bytes]:
    """What is said in another order, twice, a hundred times, or not at all."""
    found = list(parts)
    if len(found) < 2:
        return found
    at, other = chance.randrange(1, len(found)), chance.randrange(1, len(found))
    match chance.randrange(5):
        case 0:
            found[at], found[other] = found[other], found[at]
        case 1:
            del found[at]
        case 2:
            found.insert(other, found[at])
        case 3:
            many = min(100, MOST_OCTETS // max(1, len(found[at])))
            found[at:at] = [found[at] * many]
    return found


def hostile(chance: random.Random, parts: Sequence[bytes]) -> list[bytes]:
    """A conversation of which some parts, few or none, are changed."""
    found = rearranged(chance, parts) if chance.random() < 0.4 else list(parts)
    share = chance.choice([0.0, 0.1, 0.1, 0.3])
    return [mutated(chance, part) if chance.random() < share else part for part in found]
