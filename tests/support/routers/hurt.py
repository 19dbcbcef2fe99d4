"""A router that a test kills parts of."""

import contextlib
import os
import signal

import psutil

from routerd.supervise.spares import SPARES
from shm.memory.segment import DIRECTORY
from tests.support.running import RunningRouter, roles, until


class HurtRouter(RunningRouter):
    """Its log may complain."""

    @property
    def children(self) -> dict[str, int]:
        """Process ids by role, as the command lines tell: ``core``, ``worker 0``, …; a spare has none yet."""
        found = roles(self.process.pid)
        return {role: process.pid for role, process in found.items() if not role.startswith("spare")}

    @property
    def has_spares(self) -> bool:
        """Whether there are all that wait to take the place of a core or worker."""
        found = 0
        for process in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.Error):
                found += "--until-needed" in process.cmdline()
        return found == SPARES

    @property
    def segments(self) -> dict[str, int]:
        """What it has in shared memory: names and sizes."""
        return {name: os.stat(DIRECTORY / name).st_size for name in self.left_in_shared_memory}

    @property
    def all_serve(self) -> bool:
        return all(worker["accepting"] for worker in self.workers)

    def hit(self, role: str) -> None:
        """Kill a process, which may be about to come."""
        until(lambda: role in self.children, role)
        os.kill(self.children[role], signal.SIGKILL)

    @property
    def core_lives(self) -> int:
        return self.log.count(") core serves ")

    def next_core(self) -> None:
        """Kill the core, and wait until the next one has heard of all connections. Links may come later."""
        lives = self.core_lives
        self.hit("core")
        until(lambda: self.core_lives > lives, "next core")
        until(lambda: self.core["connections_admitted"] == self.counted("connections"), "its connections")

    def come_to_rest(self) -> None:
        """Without clients nothing is left of them."""
        super().come_to_rest()
        until(lambda: self.all_serve, "all workers back")
        until(lambda: len(self.children) == len(self.workers) + 1, "nobody else")

    def stop(self) -> None:
        """Whatever its log says."""
        self.end()
