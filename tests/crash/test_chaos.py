"""Any process is killed, or stopped as if it hung, at any time, while twenty senders keep ledgers.

ROUTERD_TEST_CHAOS_SECONDS makes it longer than the four seconds of every test run, ROUTERD_TEST_CHAOS_SEED
repeats one; with ``pytest -s`` it tells what it did and when all were served again (docs/operations.md).
"""

import contextlib
import itertools
import os
import random
import re
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.clients.ledger import Clients, Steps, check
from tests.support.routers.hurt import HurtRouter
from tests.support.running import Configuration, until

SECONDS = float(os.environ.get("ROUTERD_TEST_CHAOS_SECONDS", "4"))
SEED = int(os.environ.get("ROUTERD_TEST_CHAOS_SEED", str(random.SystemRandom().randrange(1 << 32))))
SERVED_SECONDS = 120.0  # far beyond what anything here takes, hung processes included
ALONE = max(1, int(SECONDS // 60))  # times that a worker, and the core, is killed by itself at the end
BURST = 8  # processes hit one after the other, at most, until all shall be served again
WORKERS = 3
HIT = ("core", "exporter", "recorder", *(f"worker {i}" for i in range(WORKERS)))
# few messages of each on their way: otherwise the clients take all CPUs, and it is they who are measured
SENDERS = ["send/4=balanced", "send/4=balanced", "send/4=closest", "send/4=closest", "send/4=multicast"]
RECEIVERS = ["receive=balanced", "receive=closest", "receive=multicast"]
ROLES = [[*SENDERS, *RECEIVERS]] * 4


def configuration(folder: Path) -> Configuration:
    sections = (
        "listener {\n host: 127.0.0.1\n port: 0\n http: yes\n}\n"
        "address {\n prefix: closest\n distribution: closest\n}\n"
        "address {\n prefix: multicast\n distribution: multicast\n}\n"
        f"flowLog {{\n directory: {folder / 'flows'}\n rollAge: 1\n}}\n"
    )
    return Configuration(router=f"workers: {WORKERS}\n arenaSize: 8", sections=sections)


class Chaos:
    """Hits one process after the other; what was done is for whoever reads of a failure."""

    def __init__(self, router: HurtRouter, seed: int) -> None:
        self._router = router
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self.done: list[str] = []

    def burst(self) -> tuple[float, bool]:
        """Some hits within seconds: when the last one was, and whether a process was stopped, which is missed
        only after a while."""
        before, last = len(self.done), time.monotonic()
        for _ in range(self._random.randint(1, BURST)):
            time.sleep(self._random.random())
            last = time.monotonic()
            self.hit()
        return last, any("SIGSTOP" in one for one in self.done[before:])

    def hit(self) -> None:
        """Kill a process, several at once, or stop one that serves; any of them, if it is there just now."""
        kind = self._random.choices(("kill", "kill both", "stop"), (6, 2, 2))[0]
        roles = self._random.sample(HIT, 1 + (kind == "kill both"))
        children = self._router.children
        for role in roles:
            if role in children:
                self._signal(role, children[role], signal.SIGSTOP if kind == "stop" else signal.SIGKILL)

    def _signal(self, role: str, pid: int, number: signal.Signals) -> None:
        if number == signal.SIGSTOP and not re.search(rf" serves pid={pid} ", self._router.log):
            return  # one that hangs before it has served has 20 s: that is another test's
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            self.done.append(f"{number.name} {role} {pid}")


class ChaoticRouter(HurtRouter):
    """With everybody that it can have."""

    @property
    def complete(self) -> bool:
        """Whether all processes are there, none of them stopped, and all workers serve."""
        children = self.children
        if set(children) != set(HIT):
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            stopped = [pid for pid in children.values() if psutil.Process(pid).status() == "stopped"]
            return not stopped and self.all_serve
        return False


@pytest.fixture
def router(tmp_path: Path) -> Iterator[ChaoticRouter]:
    router = ChaoticRouter(tmp_path, configuration(tmp_path))
    try:
        yield router
    finally:
        router.kill()


def test_chaos(router: ChaoticRouter) -> None:
    """Nothing accepted is missing, nobody waits for ever, and what was taken is given back."""
    until(lambda: router.complete, "start")
    router.hit("exporter")  # it is from the first death on that all spares are there soon
    until(lambda: router.complete and router.has_spares, "the spares")
    memory = router.segments
    chaos = Chaos(router, SEED)
    print(f"ROUTERD_TEST_CHAOS_SEED={SEED}")
    waits: dict[str, list[float]] = {"nothing": [], "kills": [], "kills and hangs": [], "one kill": []}
    steps: list[Steps] = []
    with Clients(router.url, ROLES) as clients:
        served(clients, time.monotonic())
        waits["nothing"] = [slowest(served(clients, time.monotonic())) for _ in range(3)]
        # not before: whoever starts a process, such as the spare, has some more until it runs
        descriptors = psutil.Process(router.process.pid).num_fds()
        finish = time.monotonic() + SECONDS
        while time.monotonic() < finish:
            last, hung = chaos.burst()
            waits["kills and hangs" if hung else "kills"].append(slowest(served(clients, last)))
        for role in ("worker 0", "core") * ALONE:
            until(lambda: router.complete and router.has_spares, "all processes back", SERVED_SECONDS)
            served(clients, time.monotonic())
            begin = time.monotonic()
            router.hit(role)
            steps += (found := served(clients, begin))
            waits["one kill"].append(slowest(found))
        ledgers = clients.finish()
    figures = (told(kind, seconds) for kind, seconds in waits.items())
    print("\n".join([*chaos.done, *figures, *parts(steps)]))
    check(ledgers, at_least=sum(map(len, waits.values())))
    until(lambda: router.complete, "all processes back", SERVED_SECONDS)
    until(lambda: router.counted("connections") == 0, "end of the connections")
    until(lambda: router.counted("links") == router.counted("unsettled") == 0, "end of links and deliveries")
    until(lambda: router.core["live_deliveries"] == 0, "end of the core's deliveries")
    until(lambda: router.free_blocks == router.blocks, f"return of all blocks ({router.blocks})")
    assert router.segments == memory
    until(
        lambda: psutil.Process(router.process.pid).num_fds() <= descriptors,
        f"return of all descriptors of the supervisor ({descriptors})",
    )
    assert router.counted("bad_records") == router.core["bad_records"] == 0
    router.stop()


def served(clients: Clients, begin: float) -> list[Steps]:
    """Wait until each sender has had a message accepted that it has sent since then; what they did."""
    found: list[Steps] = []

    def all_are() -> bool:
        found[:] = clients.since(begin)
        return all(one.accepted is not None for one in found)

    until(all_are, "service of all senders", SERVED_SECONDS)
    return found


def slowest(found: list[Steps]) -> float:
    """Seconds until the last sender was served."""
    return max(one.accepted or 0.0 for one in found)


def told(what: str, seconds: list[float]) -> str:
    """How long it took, as a line."""
    if not seconds:
        return f"after {what}: none"
    half, most = statistics.median(seconds), max(seconds)
    times = f"{half:.2f} s (median), {most:.2f} s (most)"
    return f"after {what}, {len(seconds)} times: all senders served within {times}"


def parts(steps: list[Steps]) -> list[str]:
    """What those who lost their connections to one dead worker waited for, as lines."""
    lines = []
    for before, after in itertools.pairwise(("begin", *Steps._fields)):
        spans = [
            getattr(one, after) - (getattr(one, before) if before != "begin" else 0.0)
            for one in steps
            if None not in one and list(one) == sorted(one)  # type: ignore[type-var]  # there is no None
        ]
        if spans:
            lines.append(f"  {after}: {statistics.median(spans):.3f} s (median), {max(spans):.3f} s (most)")
    return ["of those who had to connect again, from step to step:", *lines] if lines else []
