"""A real broker for the tests: RabbitMQ with its AMQP 1.0 plugin, on ports of its own."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.running import free_port, until

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the one on PATH changes the user
PLUGIN = "rabbitmq_amqp1_0"
START = 120.0  # seconds; an Erlang node takes a few


class Rabbit:
    """A broker; ``end`` leaves nothing behind but its folder."""

    def __init__(self, folder: Path) -> None:
        if not PROGRAM.exists() or not any(Path("/usr/lib/rabbitmq").glob(f"lib/*/plugins/{PLUGIN}-*")):
            pytest.skip("install the Debian package rabbitmq-server to test link routes to a real broker")
        self.port = free_port()
        distribution, self._epmd = free_port(), free_port()
        (folder / "plugins").write_text(f"[{PLUGIN}].\n")
        (folder / "rabbit.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        self._environment = os.environ | {
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"routerd-{os.getpid()}@localhost",
            "RABBITMQ_MNESIA_BASE": str(folder / "db"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbit.conf"),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1",
            "ERL_EPMD_PORT": str(self._epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        self._output = folder / "output"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [PROGRAM], env=self._environment, stdout=output, stderr=output, start_new_session=True
            )
        try:
            until(self._serves, f"start of the broker, see {self._output}", START)
        except BaseException:
            self.end()
            raise

    def _serves(self) -> bool:
        assert self._process.poll() is None, self._output.read_text()
        return "completed with" in self._output.read_text()

    def end(self) -> None:
        """Stop it, and the port mapper that came with it."""
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(timeout=START)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
        epmd = shutil.which("epmd")
        if epmd is not None:
            subprocess.run([epmd, "-kill"], env=self._environment, capture_output=True, check=False)
