"""Any process is killed, or stopped as if it hung, at any time, while twenty senders keep ledgers.

CHAOS_SECONDS makes it longer than the twenty seconds of every test run, CHAOS_SEED repeats one.
"""

import contextlib
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hurt import HurtRouter
from ledger import Clients, check
from running import Configuration, until

SECONDS = float(os.environ.get("CHAOS_SECONDS", "20"))
SEED = int(os.environ.get("CHAOS_SEED", str(random.SystemRandom().randrange(1 << 32))))
SERVED_SECONDS = 120.0  # far beyond what anything here takes, hung processes included
WORKERS = 3
CONFIGURATION = Configuration(
    router=f"workers: {WORKERS}\n arenaSize: 8",
    sections="listener {\n host: 127.0.0.1\n port: 0\n http: yes\n}\n"
    "address {\n prefix: closest\n distribution: closest\n}\n"
    "address {\n prefix: multicast\n distribution: multicast\n}",
)
SENDERS = ["send=balanced", "send=balanced", "send=closest", "send=closest", "send=multicast"]
RECEIVERS = ["receive=balanced", "receive=closest", "receive=multicast"]
ROLES = [[*SENDERS, *RECEIVERS]] * 4


class Chaos:
    """Hits one process after the other; what was done is for whoever reads of a failure."""

    def __init__(self, router: HurtRouter, seed: int) -> None:
        self._router = router
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self.done: list[str] = []

    def hit(self) -> None:
        """Kill a process, several at once, or stop one that serves."""
        children = self._router.children
        kind = self._random.choices(("kill", "kill both", "stop"), (6, 2, 2))[0]
        for role in self._random.sample(sorted(children), min(len(children), 1 + (kind == "kill both"))):
            self._signal(role, children[role], signal.SIGSTOP if kind == "stop" else signal.SIGKILL)

    def _signal(self, role: str, pid: int, number: signal.Signals) -> None:
        if number == signal.SIGSTOP and not re.search(rf" serves pid={pid} ", self._router.log):
            return  # one that hangs before it has served has 20 s: that is another test's
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            self.done.append(f"{number.name} {role} {pid}")


class ChaoticRouter(HurtRouter):
    """With an exporter, too."""

    @property
    def complete(self) -> bool:
        """Whether all processes are there, none of them stopped, and all workers serve."""
        children = self.children
        if set(children) != {"core", "exporter", *(f"worker {i}" for i in range(WORKERS))}:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            stopped = [pid for pid in children.values() if psutil.Process(pid).status() == "stopped"]
            return not stopped and self.all_serve
        return False


@pytest.fixture
def router(tmp_path: Path) -> Iterator[ChaoticRouter]:
    router = ChaoticRouter(tmp_path, CONFIGURATION)
    try:
        yield router
    finally:
        router.kill()


def test_chaos(router: ChaoticRouter) -> None:
    """Nothing accepted is missing, nobody waits for ever, and what was taken is given back."""
    until(lambda: router.complete, "start")
    until(lambda: router.has_spare, "the spare")
    memory = router.segments
    descriptors = psutil.Process(router.process.pid).num_fds()
    chaos = Chaos(router, SEED)
    print(f"CHAOS_SEED={SEED}")
    with Clients(router.url, ROLES) as clients:
        get_on(clients)
        finish = time.monotonic() + SECONDS
        while time.monotonic() < finish:
            chaos.hit()
            time.sleep(random.random())  # noqa: S311 - no secret
        print("\n".join(chaos.done))
        print(f"{len(chaos.done)} processes hit; all senders served {get_on(clients):.2f} s after the last")
        for role in ("worker 0", "core"):
            until(lambda: router.complete, "all processes back", SERVED_SECONDS)
            router.hit(role)
            print(f"{role} killed alone; all senders served {get_on(clients):.2f} s later")
        ledgers = clients.finish()
    check(ledgers, at_least=int(SECONDS))
    until(lambda: router.complete, "all processes back", SERVED_SECONDS)
    until(lambda: router.counted("connections") == 0, "end of the connections")
    until(lambda: router.counted("links") == router.counted("unsettled") == 0, "end of links and deliveries")
    until(lambda: router.core["live_deliveries"] == 0, "end of the core's deliveries")
    until(lambda: router.free_blocks == router.blocks, f"return of all blocks ({router.blocks})")
    assert router.segments == memory
    until(
        lambda: psutil.Process(router.process.pid).num_fds() == descriptors,
        f"return of all descriptors of the supervisor ({descriptors})",
    )
    assert router.counted("bad_records") == router.core["bad_records"] == 0
    router.stop()


def get_on(clients: Clients) -> float:
    """Wait until each sender has had some more messages accepted; the seconds that took."""
    start, before = time.monotonic(), clients.accepted()

    def served() -> bool:
        return all(count > before[name] + 5 for name, count in clients.accepted().items())

    until(served, "service of all senders", SERVED_SECONDS)
    return time.monotonic() - start
