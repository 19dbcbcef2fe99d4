"""Routers of a network, as users run them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from routerd.cli.client import Client, Place
from tests.support.running import Configuration, RunningRouter, address_of, until

LISTENERS = "listener {\n host: 127.0.0.1\n port: 0\n role: inter-router\n}\n"
ADDRESSES = "".join(f"address {{\n prefix: {name}\n distribution: {name}\n}}\n" for name in ("closest", "multicast"))


def connector(url: str, cost: int = 1) -> str:
    """A configured connector to the router whose inter-router listener has this URL."""
    host, port = address_of(url)
    terms = f"name: to-{port}\n host: {host}\n port: {port}\n role: inter-router\n cost: {cost}"
    return f"connector {{\n {terms}\n}}\n"


class NetworkRouter(RunningRouter):
    """An interior router with a listener for clients and one for routers; it dials some others."""

    def __init__(self, folder: Path, *others: str, workers: int = 1, more: str = "", expected: str = r"^$") -> None:
        folder.mkdir(exist_ok=True)
        sections = LISTENERS + ADDRESSES + "".join(map(connector, others)) + more
        router = f"mode: interior\n workers: {workers}"
        super().__init__(folder, Configuration(router, sections=sections, expected=expected))

    @property
    def routers_url(self) -> str:
        """Where other routers connect to."""
        return self.urls[1]

    def stat(self, view: str, *more: str) -> list[dict[str, Any]]:
        """What `routerd stat` shows, as its JSON has it."""
        tool = Path(sys.executable).with_name("routerd")
        done = subprocess.run(
            [tool, "stat", f"--{view}", "--json", "--bus", self.url, *more],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        rows: list[dict[str, Any]] = json.loads(done.stdout)
        return rows

    def knows(self, *ids: str) -> None:
        """Wait until there is a way to each of these routers."""
        wanted = {self.id, *ids}

        def reached() -> bool:
            with Client(Place(self.url)) as client:
                rows = list(client.query("router.node", ["id", "cost"]))
            return {row["id"] for row in rows if row.get("cost") or row["id"] == self.id} >= wanted

        until(reached, f"{self.id} knows {ids}")

    def come_to_rest(self) -> None:
        """Its neighbours stay; nothing of clients does."""
        until(lambda: self.counted("unsettled") == 0, "end of deliveries")
        until(lambda: self.core["live_deliveries"] == 0, "end of the core's deliveries")
        assert self.counted("bad_records") == self.core["bad_records"] == 0

    def stop(self) -> None:
        """SIGTERM: status 0, nothing left in /dev/shm. The log may tell of neighbours that go."""
        try:
            self.come_to_rest()
        finally:
            self.end()


def kill(router: RunningRouter) -> None:
    """Every process of a router at once, as if its machine was gone."""
    os.killpg(router.process.pid, 9)
    router.process.wait()
