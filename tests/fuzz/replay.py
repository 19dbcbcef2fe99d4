"""``python -m tests.fuzz.replay TARGET SEED NUMBER``: a Python target with its corpus, and as many changed inputs."""

import importlib
import random
import sys

from tests.fuzz.catalogue import TARGETS
from tests.fuzz.strict import One, strict


def changed(chance: random.Random, octets: bytes) -> bytes:
    """Some octets changed, cut out, or put in."""
    made = bytearray(octets)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(4):
            case 0:
                made[at : at + 1] = bytes((chance.randrange(256),))
            case 1:
                del made[at : at + chance.randint(1, 8)]
            case 2:
                made[at:at] = made[at : at + chance.randint(1, 8)]
            case 3:
                made[at : at + 1] = chance.choice((b"\0", b"\x7f", b"\x80", b"\xff"))
    return bytes(made)


def once(one: One, octets: bytes) -> None:
    try:
        one(octets)
    except BaseException:
        print(f"input {octets.hex()}", file=sys.stderr)
        raise


def main(name: str, seed: int, number: int) -> None:
    one = strict(importlib.import_module(f"tests.fuzz.targets.{name}").one)
    inputs = next(target for target in TARGETS if target.name == name).inputs
    for octets in inputs:
        once(one, octets)
    chance = random.Random(seed)  # noqa: S311  a failure must come again with its seed
    for _ in range(number):
        once(one, changed(chance, chance.choice(inputs)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
