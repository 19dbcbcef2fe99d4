"""Another real broker for the tests: ActiveMQ, which knows transactions.

Debian's has no AMQP, so a folder with its jars is named by whoever runs the tests.
"""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.running import free_port, until

VARIABLE = "ROUTERD_TEST_ACTIVEMQ"
MAIN = "org.apache.activemq.console.command.ShellCommand"
START = 120.0  # seconds; a Java machine takes a few


class ActiveMQ:
    """A broker that keeps everything in memory; ``end`` leaves nothing behind but its folder."""

    def __init__(self, folder: Path) -> None:
        jars = os.environ.get(VARIABLE, "")
        if not jars:
            # no registry that `make test` reaches has its AMQP: whoever has the jars tests with them
            pytest.skip(f"set {VARIABLE} to a folder with ActiveMQ's jars: activemq-amqp, proton-j, hawtbuf")
        java = shutil.which("java")
        if java is None:
            # `make test` installs no Java: the jars come from whoever has one
            pytest.skip("install the Debian package default-jre-headless to test transactions at ActiveMQ")
        self.port = free_port()
        uri = f"broker:(amqp://127.0.0.1:{self.port})?persistent=false&useJmx=false&dataDirectory={folder}"
        self._output = folder / "output"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", MAIN, "start", uri],
                cwd=folder,
                stdout=output,
                stderr=output,
            )
        try:
            until(self._serves, f"start of the broker, see {self._output}", START)
        except BaseException:
            self.end()
            raise

    def _serves(self) -> bool:
        assert self._process.poll() is None, self._output.read_text()
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    def end(self) -> None:
        """Stop it; there is nothing that it would have to keep."""
        self._process.kill()
        self._process.wait()
