"""Random lives of networks: of whole routers, and of the router protocol alone, one after the other."""

import logging
import time
import traceback
from typing import Final

from tests.model.random_network import RandomNetwork
from tests.model.random_protocol import RandomProtocol

KINDS: Final = (RandomNetwork, RandomProtocol)


def live(seed: int) -> int:
    """Live one life of each kind. Return its steps. Raises AssertionError if a promise was broken."""
    steps = 0
    for kind in KINDS:
        life = kind(seed)
        life.live()
        steps += life.steps
    return steps


def networks(seed: int, lives: int, seconds: float) -> bool:
    """Live so many lives, or if that is 0 for so many seconds of CPU time. Return False if a promise was broken."""
    logging.disable(logging.CRITICAL)
    began, count, steps = time.process_time(), 0, 0
    while count < lives or (not lives and time.process_time() - began < seconds):
        try:
            steps += live(seed + count)
        except Exception:  # whatever it is, the seed repeats it
            traceback.print_exc()
            print(f"SEED={seed + count} network: see above", flush=True)
            return False
        count += 1
    print(f"networks: {count} lives, {steps:,} steps, {time.process_time() - began:.0f} s: nothing broken", flush=True)
    return True
