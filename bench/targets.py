"""The measured routers: how each is started, found ready, sampled and stopped."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bench.processes import ProcessGoneError, cpu_seconds, processes, pss_bytes

ROOT = Path(__file__).resolve().parent.parent
START_LIMIT_S = 20.0
STOP_LIMIT_S = 6.0
# So long a router's processes have nothing to do before it is measured: a reserve is started after a second,
# and where there is one, another so long after the start.
REST_S = 1.5
RESERVES_S = 14.0
BUSY = 0.1  # of a CPU, more than an idle router takes
SETTINGS: Mapping[str, str] = {"workerThreads": "2"}  # qdrouterd knows this name, too

# In the syntax and with the attribute names that qdrouterd reads too, so that both can be given one file.
CONFIG = """\
router {{
    mode: {mode}
    id: {name}
{settings}
}}
listener {{
    host: 127.0.0.1
    port: {port}
    authenticatePeer: no
    saslMechanisms: ANONYMOUS
}}
"""
ROUTERS_LISTENER = """\
listener {{
    host: 127.0.0.1
    port: {port}
    role: inter-router
    authenticatePeer: no
    saslMechanisms: ANONYMOUS
}}
"""
ROUTERS_CONNECTOR = """\
connector {{
    host: 127.0.0.1
    port: {port}
    role: inter-router
    saslMechanisms: ANONYMOUS
}}
"""


RMR = """\
routeTable {{
    name: bench
    seed: {seed}
}}
listener {{
    host: 127.0.0.1
    port: {port}
    protocol: rmr
    table: bench
}}
"""


TLS = """\
sslProfile {{
    name: bench
    certFile: {certificate}
    privateKeyFile: {key}
}}
listener {{
    host: 127.0.0.1
    port: {port}
    sslProfile: bench
    requireSsl: yes
    authenticatePeer: no
    saslMechanisms: ANONYMOUS
}}
"""
C_ROUTERS = ("qdrouterd", "skrouterd")  # measured beside routerd where they are installed


class BenchError(Exception):
    """A measurement was not possible; the text says why."""


@dataclass(frozen=True)
class Target:
    """A router's name and command line, with ``{port}`` and ``{config}``, the path of a configuration file, to fill in.

    Without a command line the clients talk to each other directly.
    """

    name: str
    command: tuple[str, ...] = ()


DIRECT = Target("direct")
ROUTERD = Target("routerd", (str(Path(sys.executable).parent / "routerd"), "run", "--config", "{config}"))
BASELINE = Target("python", (sys.executable, "-m", "bench.baseline", "--port", "{port}"))


def parse_peer(text: str) -> Target:
    """Return ``NAME=COMMAND`` as a target. A command without placeholders gets ``-c {config}``, as for qdrouterd."""
    name, equals, command = text.partition("=")
    words = shlex.split(command)
    if not (equals and name and words):
        raise BenchError(f"--peer {text!r}: expected NAME=COMMAND, for instance qdrouterd=/usr/sbin/qdrouterd")
    if not any("{port}" in word or "{config}" in word for word in words):
        words += ["-c", "{config}"]
    return Target(name, tuple(words))


def installed() -> list[Target]:
    """Return the C routers on PATH; a ``qdrouterd`` in one folder with routerd is routerd by another name."""
    folders = [folder for folder in os.get_exec_path() if not Path(folder, "routerd").exists()]
    found = {name: shutil.which(name, path=os.pathsep.join(folders)) for name in C_ROUTERS}
    return [Target(name, (path, "-c", "{config}")) for name, path in found.items() if path]


def free_port() -> int:
    """Return a TCP port of the loopback interface on which nobody listens now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@dataclass(frozen=True)
class Running:
    """A router that listens on ``port``; without ``process`` there is none, and clients talk to each other.

    ``beyond`` are the next routers of a line of which it is the first. RMR applications send to ``rmr_port``, and
    message type 1000 goes to ``endpoint_port``; 0: there is no route table. Clients with TLS connect to ``tls_port``;
    0: there is no certificate.
    """

    port: int
    process: subprocess.Popen[bytes] | None = None
    beyond: tuple[Running, ...] = ()
    rmr_port: int = 0
    endpoint_port: int = 0
    tls_port: int = 0

    @property
    def far_port(self) -> int:
        """The port of the other end of the line."""
        return self.beyond[-1].port if self.beyond else self.port

    def cpu(self) -> dict[str, float]:
        """Return CPU seconds so far by role."""
        return {role: cpu_seconds(pid) for role, pid in self._processes().items()}

    def memory(self) -> dict[str, int]:
        """Return PSS in bytes by role."""
        return {role: pss_bytes(pid) for role, pid in self._processes().items()}

    def _processes(self) -> Mapping[str, int]:
        if self.process is None:
            return {}
        if self.process.poll() is not None:
            raise BenchError(f"the router ended with status {self.process.returncode} during the measurement")
        found = processes(self.process.pid)
        for number, router in enumerate(self.beyond, 2):
            found |= {f"{role} of router {number}": pid for role, pid in router._processes().items()}
        return found


@contextmanager
def started(
    target: Target,
    settings: Mapping[str, str] = SETTINGS,
    routers: int = 1,
    *,
    rmr: bool = False,
    tls: bool = False,
    sections: str = "",
) -> Iterator[Running]:
    """Run the target while the context lasts, with ``settings`` as attributes of its router entity.

    Several ``routers`` form a line, in which each connects to the one before; with ``rmr`` the router has a route
    table, with ``tls`` a listener with TLS. ``sections`` are further sections of each configuration.
    """
    if not target.command:
        yield Running(free_port())
        return
    if (routers > 1 or tls) and not any("{config}" in word for word in target.command):
        raise BenchError(f"{target.name} takes no configuration, so it is given neither neighbours nor TLS")
    if rmr:
        if target != ROUTERD:
            raise BenchError(f"{target.name} is not known to speak RMR")
        with _with_table(settings) as running:
            yield running
        return
    if tls:
        with _with_tls(target, settings) as running:
            yield running
        return
    with ExitStack() as stack:
        line: list[Running] = []
        dialled = None
        for number in range(1, routers + 1):
            more = sections
            if dialled is not None:
                more += ROUTERS_CONNECTOR.format(port=dialled)
            if number < routers:
                dialled = free_port()
                more += ROUTERS_LISTENER.format(port=dialled)
            mode = "standalone" if routers == 1 else "interior"
            name = "bench" if routers == 1 else f"bench-{number}"
            line.append(stack.enter_context(_one(target, settings, mode, name, more)))
        yield replace(line[0], beyond=tuple(line[1:]))


@contextmanager
def _with_table(settings: Mapping[str, str]) -> Iterator[Running]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        seed, port, endpoint = Path(folder, "seed"), free_port(), free_port()
        seed.write_text(f"newrt|start\nrte|1000|127.0.0.1:{endpoint}\nnewrt|end|1\n", encoding="utf-8")
        sections = RMR.format(seed=seed, port=port)
        with _one(ROUTERD, settings, "standalone", "bench", sections) as running:
            yield replace(running, rmr_port=port, endpoint_port=endpoint)


@contextmanager
def _with_tls(target: Target, settings: Mapping[str, str]) -> Iterator[Running]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        certificate, key, port = Path(folder, "certificate.pem"), Path(folder, "key.pem"), free_port()
        _certify(certificate, key)
        sections = TLS.format(certificate=certificate, key=key, port=port)
        with _one(target, settings, "standalone", "bench", sections) as running:
            yield replace(running, tls_port=port)


def _certify(certificate: Path, key: Path) -> None:
    """Write a key and a certificate that nobody else has signed."""
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    openssl = shutil.which("openssl")
    if openssl is None:
        raise BenchError("openssl, which makes the router's certificate, is not installed: apt install openssl")
    made = subprocess.run(  # noqa: S603  every word is ours
        [openssl, "req", "-x509", *curve, "-nodes", "-subj", "/CN=localhost", "-days", "2", *files],
        capture_output=True,
        check=False,
        text=True,
    )
    if made.returncode:
        raise BenchError(f"openssl makes no certificate: {made.stderr.strip()}")


@contextmanager
def _one(target: Target, settings: Mapping[str, str], mode: str, name: str, sections: str) -> Iterator[Running]:
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        config, log = Path(folder, "router.conf"), Path(folder, "router.log")
        lines = "\n".join(f"    {name}: {value}" for name, value in settings.items())
        text = CONFIG.format(port=port, settings=lines, mode=mode, name=name) + sections
        config.write_text(text, encoding="utf-8")
        command = [word.format(port=port, config=config) for word in target.command]
        process = _spawn(command, log)
        try:
            _await_port(port, process, log)
            running = Running(port, process)
            _await_rest(running)
            yield running
        finally:
            _stop(process)


def _spawn(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        try:
            return subprocess.Popen(  # noqa: S603  what the user said, or ours
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        except OSError as error:
            raise BenchError(f"{command[0]} does not start: {error.strerror}") from error


def _await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    limit = time.monotonic() + START_LIMIT_S
    while time.monotonic() < limit:
        if process.poll() is not None:
            tail = log.read_text(encoding="utf-8", errors="replace")[-600:].strip()
            raise BenchError(f"the router ended with status {process.returncode} at its start: {tail}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise BenchError(f"the router does not listen on port {port} after {START_LIMIT_S:.0f} s")


def _await_rest(running: Running) -> None:
    """Wait until a start is over, with spares that load modules; a router that never rests is measured as it is."""
    began = time.monotonic()
    limit, until = began + START_LIMIT_S, began + REST_S
    used = sum(running.cpu().values())
    while (now := time.monotonic()) < min(limit, until):
        time.sleep(0.05)
        with suppress(ProcessGoneError):
            cpu = running.cpu()
            before, used = used, sum(cpu.values())
            if used - before > BUSY * (time.monotonic() - now):
                until = time.monotonic() + REST_S
            if "spare" in cpu:
                until = max(until, began + RESERVES_S)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a router, by force if necessary; it leads a process group, so no child stays behind."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_LIMIT_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
