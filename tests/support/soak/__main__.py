"""``python -m tests.support.soak HOURS [SEED]``: everything at once, round after round, with ledgers (make soak).

In each round clients come and go by the hundred, stall, send large messages and RMR messages; other clients keep
ledgers; routers get other configurations and route tables; processes of one router are killed or replaced one after the
other, and the edge router ends and begins. Then all clients go, the routers come to rest, and what they hold is read.
At the end a table says what has grown; the readings and a picture of them are in ``build/soak``. The status is 1 if a
message was lost or anything grew.
"""

import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.synchronize import Event
from pathlib import Path

from tests.support.clients.ledger import Clients, check
from tests.support.running import LONG
from tests.support.soak.picture import picture
from tests.support.soak.readings import Readings
from tests.support.soak.site import AMQP, ROUTE_TABLE, Site
from tests.support.soak.work import Place, Work, churn, keep_on, large, rmr, stall
from tests.support.tree import ROOT

ROUND = 60.0  # seconds of work
NICE = 10
EVENTS = (1.0, 6.0)  # seconds from one thing that happens to a router to the next
VICTIMS = ("worker 0", "worker 1", "core")
FORK = multiprocessing.get_context("fork")
RESULTS = ROOT / "build" / "soak"
WORK = ((churn, AMQP, 3), (stall, AMQP, 2), (large, AMQP, 1), (rmr, ROUTE_TABLE, 1))
LEDGERS = (
    ("steady", ["send/8=balanced/x", "receive=closest/x", "receive=multicast/x"]),
    ("hurt", ["send/8=closest/x", "receive=balanced/x", "receive=multicast/x"]),
    ("hurt", ["send/8=balanced/y", "send/8=multicast/x", "receive=balanced/x"]),
    ("steady", ["send/8=closest/y", "receive=balanced/y", "receive=closest/y"]),
)


class Soak:
    """The rounds, and what was counted in them."""

    def __init__(self, folder: Path, seed: int, seconds: float = ROUND) -> None:
        self.seconds = seconds  # of work in a round
        self.seed, self.chance = seed, random.Random(seed)  # noqa: S311 - no secret
        self.site = Site(folder)
        self.readings = Readings()
        self.counted: Counter[str] = Counter()
        self.happened: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.began = time.monotonic()

    @property
    def hours(self) -> float:
        return (time.monotonic() - self.began) / 3600

    def run(self, hours: float) -> None:
        """All rounds; the routers end in good order, or an assertion says why not."""
        try:
            self.rest()
            while self.hours < hours:
                self.round()
            self.site.end()
        finally:
            self.site.kill()

    def round(self) -> None:
        """Work, and rest."""
        end = FORK.Event()
        told: multiprocessing.SimpleQueue[Counter[str]] = FORK.SimpleQueue()
        with ExitStack() as stack:
            ledgers = [stack.enter_context(Clients(self.site.routers[name].url, [roles])) for name, roles in LEDGERS]
            workers = [
                FORK.Process(target=work, args=(what, places, self.chance.randrange(1 << 32), end, told))
                for what, kind, number in WORK
                for places in [[("127.0.0.1", one.ports[kind]) for one in self.site.routers.values()]]
                for _ in range(number)
            ]
            for one in workers:
                one.start()
            try:
                self.happen(time.monotonic() + self.seconds)
            finally:
                end.set()
                for one in workers:
                    one.join(LONG)
                    if one.exitcode != 0:
                        self.tell(f"{self.hours:.2f} hours: clients ended with status {one.exitcode}")
                        one.kill()
                while not told.empty():
                    self.counted += told.get()
            self.judge(ledgers)
        self.rest()

    def happen(self, end: float) -> None:
        """One thing after the other happens to the routers."""
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, self.chance.uniform(*EVENTS)))
            role = self.chance.choice(VICTIMS)
            what = self.chance.choice((f"death of {role}", "reload", "reload", "rolling restart", "new edge router"))
            if what == "reload":
                self.chance.choice(list(self.site.routers.values())).reload()
            elif what == "rolling restart":
                self.site.hurt.command("restart", "--rolling")
            elif what == "new edge router":
                self.site.renew_edge()
            elif not self.site.hurt.kill_one(role):
                continue
            self.happened[what] += 1

    def judge(self, ledgers: list[Clients]) -> None:
        """No accepted message is lost."""
        for one in ledgers:
            one.stop()
        found = [ledger for one in ledgers for ledger in one.close()]
        self.counted["messages accepted to ledgers"] += sum(
            len(numbers) for ledger in found for numbers in ledger["accepted"].values()
        )
        try:
            check(found, at_least=1)
        except AssertionError as error:
            self.tell(f"round at {self.hours:.2f} hours: {error}")

    def rest(self) -> None:
        """Nobody asks anything: what do they hold?"""
        for router in self.site.routers.values():
            router.at_rest()
        time.sleep(12)  # after ten seconds the routers give back what they do not need
        for name, router in self.site.routers.items():
            self.readings.take(self.hours, name, router)

    def tell(self, wrong: str) -> None:
        self.wrong.append(wrong)
        print(wrong, flush=True)

    def summary(self) -> str:
        """What was done and seen."""
        done = [f"{name}: {number:,}" for name, number in sorted((self.counted + self.happened).items())]
        wrong = [*self.wrong, *self.readings.grown()]
        right = "nothing lost, " + (
            "nothing grew" if self.readings.enough else "and too few readings to say what grows"
        )
        verdict = f"seed {self.seed}, {self.hours:.2f} hours: {'WRONG' if wrong else right}"
        return "\n".join([*done, "", self.readings.table(), "", *wrong, verdict])

    def keep(self) -> None:
        """Write the readings and their picture."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        self.readings.write(RESULTS / "readings.csv")
        (RESULTS / "memory.svg").write_text(picture(self.readings.series.values()))


def work(
    what: Callable[[Work], None],
    places: list[Place],
    seed: int,
    end: Event,
    told: "multiprocessing.SimpleQueue[Counter[str]]",
) -> None:
    """In a process of its own: the clients leave the CPUs to the routers where these are few."""
    os.nice(NICE)
    mine = Work(places, seed, end)
    try:
        keep_on(what, mine)
    finally:
        told.put(mine.counted)  # a pipe holds what all of them count


def main() -> int:
    """As the command line says."""
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() & 0xFFFFFFFF
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), seed)
        try:
            soak.run(hours)
        except (Exception, KeyboardInterrupt) as error:  # what was read until then is worth hours
            soak.tell(f"{soak.hours:.2f} hours: {type(error).__name__}: {error}")
        soak.keep()
        print(f"{soak.summary()}\nreadings and picture: {RESULTS}")
        return bool(soak.wrong or soak.readings.grown())


if __name__ == "__main__":
    sys.exit(main())
