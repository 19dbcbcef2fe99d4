"""Runs inside the container: starts, reloads, hangs, kills and stops the service while a client connects."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.support.programs import systemd_listeners

SOURCE = Path("/opt/routerd/source")
CONFIG = Path("/etc/routerd/routerd.conf")
HEADER = b"AMQP\x03\x01\x00\x00"


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def shown(name: str) -> str:
    return run("systemctl", "show", "--value", "-p", name, "routerd.service")


def reloaded() -> str:
    """Return the router's status, which is empty while the router reads its configuration."""
    status = shown("StatusText")
    return status if "serve" in status else ""


def taken() -> bool:
    status = reloaded()
    return bool(status) and "refused" not in status


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + systemd_listeners.PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Client:
    """Connects again and again; what became of each attempt is counted."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.longest = 0.0
        self._end = False
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._end:
            began = time.monotonic()
            self.outcomes[self._attempt()] += 1
            self.longest = max(self.longest, time.monotonic() - began)
            time.sleep(0.01)

    def _attempt(self) -> str:
        try:
            with socket.create_connection(("127.0.0.1", 5672), timeout=systemd_listeners.PATIENCE) as sock:
                sock.sendall(HEADER)
                return "served" if sock.recv(8) == HEADER else "cut off"
        except OSError as error:
            return type(error).__name__

    def served_more(self) -> None:
        """Until it is served again."""
        before = self.outcomes["served"]
        until(lambda: self.outcomes["served"] > before + 3, f"served again: {self.outcomes}")

    def end(self) -> None:
        self._end = True
        if self._thread.is_alive():
            self._thread.join()


class Steps:
    """What is done with the service, one step after the other; `done` is written even if one fails."""

    def __init__(self) -> None:
        self.done: dict[str, object] = {}
        self.client = Client()

    def all(self) -> None:
        self.prepare()
        self.start()
        self.done["seen"] = systemd_listeners.visit()
        for step in (
            self.reload,
            self.refused_reload,
            self.other_hosts,
            self.restart,
            self.roll,
            self.worker_hangs,
            self.hang,
            self.kill,
        ):
            before = dict(self.client.outcomes)
            step()
            self.client.served_more()
            after = Counter(self.client.outcomes)
            after.subtract(before)
            self.done[step.__name__] = {name: count for name, count in after.items() if count}
        self.done["pages"] = systemd_listeners.pages()
        self.client.end()
        self.done["outcomes"] = dict(self.client.outcomes)
        self.done["longest"] = self.client.longest
        self.mistake()
        self.stop()

    def prepare(self) -> None:
        self.install()
        systemd_listeners.prepare()
        self.configure()
        run("ip", "link", "set", "lo", "up")

    def install(self) -> None:
        """As docs/operations.md says, but for the start, which is a step of its own."""
        page = (SOURCE / "docs" / "operations.md").read_text(encoding="utf-8")
        _, _, rest = page.partition("\ninstall -m 644 systemd/routerd.service")
        lines = f"install -m 644 systemd/routerd.service{rest.partition('```')[0]}".splitlines()
        commands = [line for line in lines if not line.startswith("systemctl enable")]
        assert len(commands) == len(lines) - 1
        subprocess.run(["/bin/bash", "-ec", "\n".join(commands)], cwd=SOURCE, check=True)

    def configure(self, more: str = "", host: str = "") -> None:
        router = "router {\n id: contained\n mode: interior\n workers: 2\n arenaSize: 4\n}\n"
        at = f" host: {host}\n" if host else ""
        CONFIG.write_text(f"{router}listener {{\n{at} port: 5672\n}}\n{systemd_listeners.LISTENERS}{more}")
        shutil.chown(CONFIG, group="routerd")
        CONFIG.chmod(0o640)

    def start(self) -> None:
        run("systemctl", "start", "routerd.socket")
        self.client.start()
        run("systemctl", "start", "routerd.service")
        self.client.served_more()
        self.done["start"] = shown("StatusText")
        pid = shown("MainPID")
        children = run("pgrep", "-P", pid).split()
        self.done["user"] = {run("ps", "-o", "user=", "-p", one) for one in (pid, *children)} == {"routerd"}
        self.done["children"] = len(serving())
        self.done["shared memory"] = {oct(path.stat().st_mode & 0o777) for path in shared()} == {"0o600"}

    def reload(self) -> None:
        before = shown("MainPID"), serving()
        self.configure("listener {\n host: 127.0.0.1\n port: 5673\n}\n")
        run("systemctl", "reload", "routerd.service")
        until(lambda: can_connect(5673), "the added listener")
        until(reloaded, "the end of the reload")
        assert (shown("MainPID"), serving()) == before

    def refused_reload(self) -> None:
        """By the check, before the router hears of it; and by the router, for what no check can know."""
        self.configure("nonsense {\n}\n")
        try:
            run("systemctl", "reload", "routerd.service")
        except subprocess.CalledProcessError:
            self.done["reload of a broken file"] = "failed"
        self.done["shown of it"] = [
            shown("ExecReload"),
            shown("StatusText"),
            run("systemctl", "status", "routerd.service"),
        ]
        with socket.create_server(("127.0.0.1", 5674)):
            self.configure("listener {\n host: 127.0.0.1\n port: 5674\n}\n")
            run("systemctl", "reload", "routerd.service")
            until(lambda: "refused" in reloaded(), "the refusal")
        told = systemd_listeners.series
        self.done["refused"] = told("routerd_config_last_reload_successful")
        self.configure()
        run("systemctl", "reload", "routerd.service")
        until(taken, "the reload")
        self.done["taken"] = told("routerd_config_last_reload_successful")
        self.done["taken at"] = told("routerd_config_last_reload_success_timestamp_seconds")

    def other_hosts(self) -> None:
        """The socket unit holds the port: a reload changes what its socket serves, and no more."""
        before = shown("MainPID"), serving()
        for host in ("0.0.0.0", ""):
            self.configure(host=host)
            run("systemctl", "reload", "routerd.service")
            until(taken, f"the reload with host {host!r}")
            self.client.served_more()
        self.configure(host="127.0.0.1")
        run("systemctl", "reload", "routerd.service")
        until(lambda: "refused" in reloaded(), "the refusal")
        self.configure()
        run("systemctl", "reload", "routerd.service")
        until(taken, "the reload")
        assert (shown("MainPID"), serving()) == before

    def restart(self) -> None:
        before = shown("MainPID")
        run("systemctl", "restart", "routerd.service")
        assert before != shown("MainPID")

    def roll(self) -> None:
        pid, before = shown("MainPID"), serving()
        run("systemctl", "kill", "-s", "USR1", "--kill-whom=main", "routerd.service")
        until(lambda: len(serving() - before) == 3, "new processes")
        until(lambda: not before & serving(), "old processes gone")
        assert pid == shown("MainPID")

    def worker_hangs(self) -> None:
        pid = shown("MainPID")
        hung = run("pgrep", "-f", "routerd.process worker 0")
        os.kill(int(hung), signal.SIGSTOP)
        until(lambda: not Path(f"/proc/{hung}").exists(), "end of the hung worker")
        assert pid == shown("MainPID")

    def hang(self) -> None:
        before = shown("MainPID")
        os.kill(int(before), signal.SIGSTOP)
        until(lambda: shown("MainPID") not in (before, "0"), "the watchdog")
        self.done["watchdog"] = "watchdog" in run("journalctl", "-u", "routerd.service").lower()

    def kill(self) -> None:
        before = shown("MainPID")
        os.kill(int(before), signal.SIGKILL)
        until(lambda: shown("MainPID") not in (before, "0"), "the next start")

    def mistake(self) -> None:
        """A start with a mistake in the file fails once; the socket stays, and the next start needs no more."""
        self.configure("mistake {\n}\n")
        run("systemctl", "stop", "routerd.service")  # a client that still waits at the socket starts it again
        try:
            run("systemctl", "start", "routerd.service")
        except subprocess.CalledProcessError:
            self.done["mistake"] = [shown("ActiveState"), shown("NRestarts"), shown("ExecMainStatus")]
        self.done["its socket"] = run("systemctl", "is-active", "routerd.socket").strip()
        self.configure()
        run("systemctl", "start", "routerd.service")

    def stop(self) -> None:
        run("systemctl", "stop", "routerd.socket", "routerd.service")
        self.done["flows"] = len(list(systemd_listeners.FLOWS.rglob("*.parquet")))
        self.done["stopped"] = [shown("Result"), shown("ExecMainStatus")]
        self.done["left in shared memory"] = [path.name for path in shared()]


def shared() -> list[Path]:
    return [path for path in Path("/dev/shm").iterdir() if "routerd" in path.name]


def serving() -> set[str]:
    """Process ids of core and workers; a spare may come at any moment."""
    return set(run("pgrep", "-f", "routerd.process (core|worker)").split())


def can_connect(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    steps = Steps()
    result = Path(sys.argv[1])
    try:
        steps.all()
    except BaseException as error:
        steps.done["error"] = repr(error)
        steps.client.end()
        raise
    finally:
        (result / "done.json").write_text(json.dumps(steps.done))
        (result / "journal").write_text(run("journalctl", "--no-pager"))
        fields = "MESSAGE,PRIORITY"
        (result / "lines").write_text(
            run("journalctl", "-u", "routerd.service", "-o", "json", f"--output-fields={fields}")
        )
