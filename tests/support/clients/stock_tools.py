"""qdstat and qdmanage of qpid-dispatch 1.19, unmodified, if this machine has them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.running import LONG

MISSING = (
    "qdstat and qdmanage of qpid-dispatch 1.19 are not here: install them, or set "
    "QPID_DISPATCH_HOME to a source tree of qpid-dispatch (its folders python and tools are used)"
)


class StockTools:
    """Runs the tools against a router. None of ``find``: there are none."""

    def __init__(self, commands: dict[str, list[str]], environment: dict[str, str], url: str) -> None:
        self._commands = commands
        self._environment = environment
        self._bus = url.removeprefix("amqp://")

    @classmethod
    def find(cls, url: str, folder: Path) -> "StockTools | None":
        """Those on PATH, or of a source tree; ``folder`` takes what installing would make of that."""
        found = {name: shutil.which(name) for name in ("qdstat", "qdmanage")}
        if all(found.values()):
            return cls({name: [str(path)] for name, path in found.items()}, dict(os.environ), url)
        home = Path(os.environ.get("QPID_DISPATCH_HOME", ""))
        tools = {name: home / "tools" / name for name in found}
        site = home / "python" / "qpid_dispatch_site.py.in"
        if not os.environ.get("QPID_DISPATCH_HOME") or not all(map(Path.exists, (*tools.values(), site))):
            return None
        text = site.read_text().replace("${QPID_DISPATCH_VERSION}", "1.19.0")
        (folder / "qpid_dispatch_site.py").write_text(text.replace("${LIBWEBSOCKETS_VERSION_STRING}", ""))
        environment = dict(os.environ) | {"PYTHONPATH": f"{folder}:{home / 'python'}"}
        return cls({name: [sys.executable, str(path)] for name, path in tools.items()}, environment, url)

    def run(self, tool: str, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        command = [*self._commands[tool], *arguments, "-b", self._bus, "-t", f"{LONG:.0f}"]
        return subprocess.run(
            command, env=self._environment, input=stdin, capture_output=True, text=True, check=False, timeout=LONG
        )
