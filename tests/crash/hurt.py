"""A router that a test kills parts of."""

import os
import signal

import psutil
from running import LONG, RunningRouter, until

from shm.segment import DIRECTORY


class HurtRouter(RunningRouter):
    """Its log may complain."""

    @property
    def children(self) -> dict[str, int]:
        """Process ids by role, as the command lines tell: ``core``, ``worker 0``, …; a spare has none yet."""
        return {role: pid for role, pid in self._processes.items() if not role.startswith("spare")}

    @property
    def has_spare(self) -> bool:
        """Whether one waits to take the place of a core or worker."""
        return any(role.startswith("spare") for role in self._processes)

    @property
    def _processes(self) -> dict[str, int]:
        found = {}
        for process in psutil.Process(self.process.pid).children():
            try:
                words = process.cmdline()
            except psutil.NoSuchProcess:
                continue
            if "routerd.process" in words:
                role = words[words.index("routerd.process") + 1 : words.index("--control-fd")]
                found[" ".join(role)] = process.pid
        return found

    @property
    def segments(self) -> dict[str, int]:
        """What it has in shared memory: names and sizes."""
        return {name: os.stat(DIRECTORY / name).st_size for name in self.left_in_shared_memory}

    @property
    def all_serve(self) -> bool:
        return all(worker["accepting"] for worker in self.workers)

    def hit(self, role: str) -> None:
        os.kill(self.children[role], signal.SIGKILL)

    def come_to_rest(self) -> None:
        """Without clients nothing is left of them."""
        super().come_to_rest()
        until(lambda: self.all_serve, "all workers back")
        assert len(self.children) == len(self.workers) + 1

    def stop(self) -> None:
        """SIGTERM: status 0, and nothing left in /dev/shm."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=LONG) == 0, self.log
        assert self.left_in_shared_memory == []
