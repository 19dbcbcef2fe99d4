"""Runs inside the container: does what docs/install.md says with the packages, while clients send and connect."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from proton import Message, ProtonException
from proton.utils import BlockingConnection

HEADER = b"AMQP\x03\x01\x00\x00"
HOST = "127.0.0.1"
PORTS = {"routerd.service": 5672, "routerd@a.service": 5673, "routerd@b.service": 5674}  # of AMQP, as on the page
PATIENCE = 60.0
OURS = ("routerd", "/opt/routerd")


def run(command: str) -> str:
    """What root's shell prints; the command must succeed."""
    done = subprocess.run(["/bin/bash", "-ec", command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


class Clients:
    """Of one router. One connects in a loop; one sends and one receives, and both connect again when cut off."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.outcomes: Counter[str] = Counter()
        self.longest = 0.0
        self.accepted: set[int] = set()
        self.received: Counter[int] = Counter()
        self.refused: Counter[str] = Counter()
        self.products: set[str] = set()
        self._end = threading.Event()
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._knock, self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def _knock(self) -> None:
        while not self._end.wait(0.005):
            began = time.monotonic()
            try:
                with socket.create_connection((HOST, self._port), timeout=PATIENCE) as sock:
                    sock.sendall(HEADER)
                    self.outcomes["served" if sock.recv(8) == HEADER else "cut off"] += 1
            except OSError as error:
                self.outcomes[type(error).__name__] += 1
            self.longest = max(self.longest, time.monotonic() - began)

    def _connected(self, work: Callable[[BlockingConnection], None]) -> None:
        while not self._end.is_set():
            try:
                connection = BlockingConnection(f"{HOST}:{self._port}", timeout=PATIENCE)
                self.products.add(str(connection.conn.remote_properties["product"]))
                work(connection)
            except ConnectionRefusedError as error:
                self.refused[type(error).__name__] += 1
            except (ProtonException, OSError) as error:
                if "refused" in str(error).lower():
                    self.refused[str(error)] += 1

    def _send(self) -> None:
        number = 0

        def work(connection: BlockingConnection) -> None:
            nonlocal number
            sender = connection.create_sender("ledger")
            while not self._end.is_set():
                number += 1
                sender.send(Message(body=number))
                self.accepted.add(number)

        self._connected(work)

    def _receive(self) -> None:
        def work(connection: BlockingConnection) -> None:
            receiver = connection.create_receiver("ledger", credit=50)
            while not self._end.is_set():
                self.received[receiver.receive(timeout=PATIENCE).body] += 1
                receiver.accept()

        self._connected(work)

    def go_on(self) -> None:
        """Until all three have been served again."""
        before = self.outcomes["served"], len(self.accepted)
        until(lambda: self.outcomes["served"] > before[0] + 5 and len(self.accepted) > before[1] + 50, "service")

    def end(self) -> None:
        self._end.set()
        for thread in self._threads[:2]:
            thread.join(PATIENCE)

    def told(self) -> dict[str, object]:
        return {
            "outcomes": dict(self.outcomes),
            "longest": self.longest,
            "accepted": len(self.accepted),
            "missing": sorted(self.accepted - self.received.keys()),
            "refused": dict(self.refused),
            "products": sorted(self.products),
        }


def serving() -> set[str]:
    """Process ids of the routers' children."""
    return set(run("pgrep -f 'routerd[.]process' || true").split())


def supervisors() -> dict[str, str]:
    """The process id of each service."""
    return {unit: run(f"systemctl show --value -p MainPID {unit}").strip() for unit in PORTS}


def active() -> dict[str, str]:
    """The states of all units."""
    units = [unit.replace(".service", kind) for unit in PORTS for kind in (".socket", ".service")]
    return dict(zip(units, run(f"systemctl is-active {' '.join(units)} || true").split(), strict=True))


def files() -> set[str]:
    """Whatever stands where packages and services leave something."""
    found = set()
    for top in ("/etc", "/opt", "/usr", "/var", "/run", "/dev/shm"):
        for folder, _, names in os.walk(top):
            found.update(os.path.join(folder, name) for name in names)
            found.add(folder)
    return found


def left(before: set[str]) -> list[str]:
    """What is there now, was not there before, and has to do with the router by its place or content."""
    return sorted(one for one in files() - before if any(word in one for word in OURS))


def all_steps(page: dict[str, str], done: dict[str, object]) -> None:
    run("ip link set lo up")
    before = files()
    users = Path("/etc/passwd").read_text()
    done["install"] = run(page["Install"])
    done["enabled"] = run("systemctl is-enabled routerd.socket routerd.service").split()
    done["user"] = run("ps -o user= -C routerd | sort -u; stat -c '%U %G %a' /etc/routerd /var/log/routerd")
    done["completion"] = run("COMP_WORDS='routerd st' COMP_CWORD=1 _ROUTERD_COMPLETE=bash_complete routerd")
    done["log"] = Path("/var/log/routerd/routerd.log").read_text()
    done["instance"] = run(page["Several routers"])
    run(page["Serve other machines"])
    done["open"] = run("ss -ltnH")
    clients = {unit: Clients(port) for unit, port in PORTS.items()}
    try:
        upgrades(page, done, clients)
    finally:
        for one in clients.values():
            one.end()
        done["clients"] = {unit: one.told() for unit, one in clients.items()}
    removals(page, done)
    done["left"] = left(before)
    done["users"] = Path("/etc/passwd").read_text() == users


def upgrades(page: dict[str, str], done: dict[str, object], clients: dict[str, Clients]) -> None:
    """Upgrade, an upgrade that one configuration forbids, roll back; `changed` has who was restarted by each."""
    changed: dict[str, list[str]] = {}

    def step(name: str, command: str) -> None:
        for one in clients.values():
            one.go_on()
        old = supervisors()
        done[name] = run(command)
        for one in clients.values():
            one.go_on()
        now = supervisors()
        changed[name] = [unit for unit in PORTS if now[unit] != old[unit]]

    old = serving()
    step("upgrade", page["Upgrade"])
    done["new processes"] = not old & serving()
    done["products"] = {unit: sorted(one.products) for unit, one in clients.items()}
    run("echo nonsense >>/etc/routerd/routerd.conf")
    step("refused", "dpkg -i ./routerd_0.3.0_amd64.deb")
    run("sed -i '$d' /etc/routerd/routerd.conf")
    step("roll back", page["Roll back"])
    done["changed"] = changed
    run("logrotate -f /etc/logrotate.d/routerd")
    done["rotated"] = run("ls /var/log/routerd")


def removals(page: dict[str, str], done: dict[str, object]) -> None:
    first, _, second = page["Remove"].strip().partition("\n")
    done["remove"] = run(first)
    done["stopped"] = not serving()
    done["kept after removal"] = [path for path in ("/etc/routerd/routerd.conf", "/opt/routerd") if Path(path).exists()]
    done["start"] = run(page["Roll back"])
    done["installed again"] = active()
    run("systemctl disable routerd.socket routerd.service")
    run(first)
    run(page["Roll back"])
    done["disabled"] = active()
    run(first)
    Path("/etc/routerd/of-the-administrator.pem").write_text("")
    done["purge"] = run(second)


if __name__ == "__main__":
    result = Path(sys.argv[1])
    done: dict[str, object] = {}
    os.chdir("/root/packages")
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    os.environ["APT_CONFIG"] = str(Path("apt.conf").resolve())
    try:
        all_steps(json.loads(Path("page.json").read_text()), done)
    except BaseException as error:
        done["error"] = str(error)
        raise
    finally:
        (result / "done.json").write_text(json.dumps(done, indent=1))
        (result / "journal").write_text(run("journalctl --no-pager"))
