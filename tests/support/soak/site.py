"""The routers of a soak: one that is hurt, one that lives all the time, and an edge router that comes and goes."""

import os
import signal
import subprocess
from pathlib import Path

from tests.support.routers.hurt import HurtRouter
from tests.support.running import LONG, PROGRAM, Configuration, free_port, until

AMQP, INTERIOR, EDGE, SOURCE_ROUTES, ROUTE_TABLE = "amqp", "inter-router", "edge", "ockam", "rmr"
KINDS = (AMQP, INTERIOR, EDGE, SOURCE_ROUTES, ROUTE_TABLE)
TREATMENTS = ("closest", "balanced", "multicast")


class SoakedRouter(HurtRouter):
    """An interior router on ports of its own, or an edge router. It dials others by their ports."""

    def __init__(self, folder: Path, ports: dict[str, int], *dialled: int, edge: bool = False) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.ports, self.dialled, self.edge = folder, ports, dialled, edge
        self.table = folder / "table"
        self.changes = 0
        self.write_table()
        super().__init__(folder, self.configuration())

    def configuration(self) -> Configuration:
        """What its file says; each change of it has another listener and another address."""
        role = "edge" if self.edge else "inter-router"
        sections = [f"connector {{\n host: 127.0.0.1\n port: {port}\n role: {role}\n}}\n" for port in self.dialled]
        sections += [f"address {{\n prefix: {name}\n distribution: {name}\n}}\n" for name in TREATMENTS]
        sections += [f"address {{\n prefix: changed.{self.changes}\n distribution: multicast\n}}\n"]
        sections += [f"routeTable {{\n name: rt\n seed: {self.table}\n connect: no\n}}\n"]
        sections += [self.listener(ROUTE_TABLE, "protocol: rmr", "table: rt")]
        if not self.edge:
            own = "name: own", "protocol: ockam", "framing: cbor", "routeAddress: own", "reach: own.q"
            sections += [self.listener(kind, f"role: {kind}") for kind in (INTERIOR, EDGE)]
            sections += [self.listener(SOURCE_ROUTES, *own)]
        amqp = f"host: 127.0.0.1\n port: {self.ports[AMQP]}\n authenticatePeer: no"
        return Configuration(f"mode: {'edge' if self.edge else 'interior'}\n workers: 2", amqp, "".join(sections))

    def listener(self, kind: str, *more: str) -> str:
        return "".join(
            f"{line}\n" for line in ("listener {", "host: 127.0.0.1", f"port: {self.ports[kind]}", *more, "}")
        )

    def write_table(self) -> None:
        """Write another route table: 200 of 1,000 message types change."""
        lines = [f"mse|{kind}|-1|127.0.0.1:{1 + (kind + self.changes) % 5}" for kind in range(1, 1001)]
        self.table.write_text("\n".join(["newrt|start", *lines, f"newrt|end|{len(lines)}", ""]))

    def reload(self) -> None:
        """Change the route table and the configuration, and have it read both."""
        self.changes += 1
        self.write_table()
        self.config.write_text(self.configuration().text(self.id))
        self.command("reload")

    def command(self, *words: str) -> None:
        """Give it a command. Raises `AssertionError` with what the command says, if it fails."""
        pid = ["--pid", str(self.process.pid)]
        done = subprocess.run([PROGRAM, *words, *pid], capture_output=True, text=True, check=False, timeout=4 * LONG)
        assert done.returncode == 0, f"routerd {' '.join(words)}: {done.stdout}{done.stderr}"

    def kill_one(self, role: str) -> bool:
        """Kill a process of it; False: it has none of this role just now."""
        pid = self.children.get(role)
        if pid is None:
            return False
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def at_rest(self) -> None:
        """Nothing of clients is left; all processes are there. Neighbours stay."""
        until(lambda: self.counted("unsettled") == 0, f"{self.id}: end of deliveries", 2 * LONG)
        until(lambda: self.core["live_deliveries"] == 0, f"{self.id}: end of the core's deliveries")
        until(lambda: self.all_serve and self.has_spares, f"{self.id}: all processes")
        assert self.counted("bad_records") == self.core["bad_records"] == 0


class Site:
    """The three: clients of the hurt router and of the edge router reach each other through the steady one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {name: {kind: free_port() for kind in KINDS} for name in ("steady", "hurt", "brink")}
        self._started: list[SoakedRouter] = []
        try:
            self.steady = self.started("steady")
            self.hurt = self.started("hurt", self.steady.ports[INTERIOR])
            self.brink = self.new_edge()
        except BaseException:
            self.kill()
            raise

    def started(self, name: str, *dialled: int, edge: bool = False) -> SoakedRouter:
        """Start a router on the ports that it always has."""
        router = SoakedRouter(self.folder / name, self.ports[name], *dialled, edge=edge)
        self._started = [*(one for one in self._started if one.process.poll() is None), router]
        return router

    def new_edge(self) -> SoakedRouter:
        return self.started("brink", self.steady.ports[EDGE], edge=True)

    @property
    def routers(self) -> dict[str, SoakedRouter]:
        """By name."""
        return {"steady": self.steady, "hurt": self.hurt, "brink": self.brink}

    def renew_edge(self) -> None:
        """End the edge router and start another one."""
        self.brink.end()
        self.brink = self.new_edge()

    def end(self) -> None:
        """End all of them in good order."""
        for router in reversed(self.routers.values()):
            router.end()

    def kill(self) -> None:
        for router in self._started:
            router.kill()
