"""Well-behaved clients in a process of their own, whose round trips and messages are watched."""

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.support.tree import ROOT

PROGRAM = "tests.support.programs.steady_pairs"
PAIRS = 3


@dataclass(frozen=True)
class Lap:
    """What the bystanders saw in a while. All times are in seconds."""

    trips: list[float]  # round trips that have ended, without waits for a CPU
    waits: list[float]  # those that go on, so far
    outages: list[float]  # from a lost connection to the next accepted message
    absent: list[float]  # those that go on, so far
    machine: list[float]  # round trips to a process that answers at once: the machine's share
    faults: list[str]  # messages that were damaged, doubled, or accepted and never delivered
    unlucky: list[str]  # lost connections, messages that were not accepted

    @property
    def median(self) -> float:
        """Half of the round trips took less."""
        return statistics.median([*self.trips, *self.waits])

    @property
    def worst(self) -> float:
        """The longest round trip, over or not."""
        return max([*self.trips, *self.waits], default=0.0)


class Bystanders:
    """Pairs of a sender and a receiver with one message on its way at a time, until the end of a ``with``.

    ``processes`` are those of the router that a message passes. What they wait for a CPU is no part of a round trip.
    """

    def __init__(self, address: tuple[str, int], prefix: str, pairs: int, processes: list[int]) -> None:
        host, port = address
        self._process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, host, str(port), prefix, str(pairs), *map(str, processes)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def lap(self) -> Lap:
        """What they saw since the last lap."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("lap\n")
        self._process.stdin.flush()
        return Lap(**json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._process.communicate()
