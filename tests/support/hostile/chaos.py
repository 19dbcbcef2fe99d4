"""``python -m tests.support.hostile.chaos MINUTES [SEED]``: every fuzzer at once, and processes killed.

Rounds without deaths, judged by the whole verdict, take turns with rounds in which workers, core and exporter are
killed: then the bystanders may lose connections, but no message that was accepted, and are served again. The seed comes
from the clock unless it is given. What was done is printed at the end; the status is 1 if a round went wrong.
"""

import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from tests.support.hostile.fuzz import WAYS, Fuzzer
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import Bounds, Verdict
from tests.support.routers.hurt import HurtRouter
from tests.support.running import RunningRouter, until

ROUND = 20.0  # seconds
SHORTEST = 3.0
NICE = 10
DEATHS = (0.2, 3.0)  # seconds from one death to the next
LINES = 4500  # of the log in a round: 50 of each kind in a row, with 8 listeners and 2 workers, and of the core's kinds
LINES_OF_A_DEATH = 300  # more: a new process counts from the beginning
SERVED = 60.0  # seconds, at most, until the bystanders are served again after the last death
VICTIMS = ("worker 0", "worker 1", "core", "exporter")
FORK = multiprocessing.get_context("fork")


def attack(target: Target, way: str, seed: int, seconds: float, told: "multiprocessing.SimpleQueue[object]") -> None:
    """In a process of its own: one fuzzer, for a round. The router and the bystanders go first where CPUs are few."""
    os.nice(NICE)
    told.put((way, Fuzzer(target, way, seed).run(seconds)))


class Chaos:
    """The rounds, and what was counted in them."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target, self.seed = target, seed
        self.chance = random.Random(seed)  # noqa: S311 - no secret
        self.router = HurtRouter(target.folder, target.configuration)
        self.counted: dict[str, Counter[str]] = {way: Counter() for way in WAYS}
        self.deaths: Counter[str] = Counter()
        self.trips: list[float] = []  # round trips of bystanders in rounds without deaths
        self.outages: list[float] = []
        self.idle: list[float] = []
        self.wrong: list[str] = []
        self.rounds = 0

    def run(self, seconds: float) -> None:
        """All rounds, then the rest that the router must come to."""
        end = time.monotonic() + seconds
        try:
            while (left := end - time.monotonic()) > 0 or self.rounds < 2:
                self.round(min(ROUND, max(SHORTEST, left)), deadly=self.rounds % 2 == 1)
                self.rounds += 1
            with self.judged("rest"):
                RunningRouter.come_to_rest(self.router)
                self.router.end()
        finally:
            self.router.kill()

    def judged(self, what: str) -> "Judged":
        return Judged(self, what)

    def round(self, seconds: float, deadly: bool) -> None:
        """All fuzzers at once for so long."""
        seed = self.chance.randrange(1 << 32)
        told: multiprocessing.SimpleQueue[object] = FORK.SimpleQueue()
        verdict, died = Verdict(self.router, Bounds(lives=not deadly, lines=LINES)), self.deaths.total()
        with self.judged(f"round {self.rounds}, {'deaths' if deadly else 'no deaths'}"), verdict:
            fuzzers = [FORK.Process(target=attack, args=(self.target, way, seed, seconds, told)) for way in WAYS]
            for one in fuzzers:
                one.start()
            self.watch(verdict, time.monotonic() + seconds, deadly)
            lines = LINES + LINES_OF_A_DEATH * (self.deaths.total() - died)
            verdict.bounds = replace(verdict.bounds, lines=lines)
            for way, counted in (told.get() for _ in fuzzers):  # type: ignore[misc]  # what attack() puts there
                self.counted[way] += counted
            for one in fuzzers:
                one.join()
            until(lambda: not verdict.look().absent, "service of all bystanders", SERVED)
        for lap in verdict.laps:
            self.outages += lap.outages
            self.trips += [] if deadly else lap.trips
        self.idle.append(verdict.idle.median)

    def watch(self, verdict: Verdict, end: float, deadly: bool) -> None:
        """Wait, and kill."""
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, self.chance.uniform(*DEATHS)))
            verdict.look()
            role = self.chance.choice(VICTIMS)
            if deadly and (pid := self.router.children.get(role)):
                with suppress(psutil.Error):
                    psutil.Process(pid).kill()
                    self.deaths[role] += 1

    def summary(self) -> str:
        """What was done and seen."""
        lines = [f"{way:12} {format_counts(counted)}" for way, counted in self.counted.items()]
        total = sum(self.counted.values(), Counter())
        lines.append(f"{'all':12} {format_counts(total)} in {self.rounds} rounds")
        lines.append(f"deaths       {sum(self.deaths.values())} {dict(self.deaths)}")
        if self.trips:
            ordered = sorted(self.trips)
            places = {"median": 0.5, "99 %": 0.99, "99.9 %": 0.999}
            told = [f"{name} {1000 * ordered[int(len(ordered) * at)]:.1f}" for name, at in places.items()]
            idle = 1000 * sorted(self.idle)[len(self.idle) // 2]
            lines.append(
                f"round trips  {len(ordered)}: {', '.join(told)}, worst {1000 * ordered[-1]:.1f} ms; idle {idle:.1f} ms"
            )
        if self.outages:
            lines.append(f"outages      {len(self.outages)}, the longest {max(self.outages):.2f} s")
        return "\n".join([*lines, *self.wrong, f"seed {self.seed}: {'WRONG' if self.wrong else 'nothing went wrong'}"])


class Judged:
    """Keeps what an assertion says, and goes on."""

    def __init__(self, chaos: Chaos, what: str) -> None:
        self.chaos, self.what = chaos, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if isinstance(error, AssertionError):
            self.chaos.wrong.append(f"{self.what}: {error}")
            print(self.chaos.wrong[-1], flush=True)
        return isinstance(error, AssertionError)


def format_counts(counted: Counter[str]) -> str:
    megabytes = f"{counted['octets'] / 1e6:.1f} MB"
    return (
        f"{counted['connections']} connections, {counted['writes']} writes, {megabytes}, {counted['refused']} refused"
    )


def main() -> int:
    """As the command line says."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() & 0xFFFFFFFF
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        chaos = Chaos(Target.made(Path(folder)), seed)
        chaos.run(60 * minutes)
        print(chaos.summary())
        if chaos.wrong:
            kept = Path(tempfile.gettempdir(), f"routerd-chaos-{seed}.log")
            kept.write_bytes((Path(folder) / "log").read_bytes())
            print(f"the router's log is in {kept}")
    return bool(chaos.wrong)


if __name__ == "__main__":
    sys.exit(main())
