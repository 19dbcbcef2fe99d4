"""Networks of running routers: ours, and qdrouterd and skrouterd where they are installed."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, Self

import psutil
import pytest
from proton import Message

from tests.support.peer import Net
from tests.support.running import LONG, free_port, roles, until

OURS: Final = "routerd"
DISPATCH: Final = "qdrouterd"
SKUPPER: Final = "skrouterd"

PROGRAMS: Final = {
    DISPATCH: ("ROUTERD_TEST_QDROUTERD", "qpid-dispatch 1.19"),
    SKUPPER: ("ROUTERD_TEST_SKROUTERD", "skupper-router 3"),
}


def section(kind: str, *attributes: str) -> str:
    """A section of a configuration file."""
    return "".join(f"{line}\n" for line in (f"{kind} {{", *attributes, "}"))


TREATMENTS: Final = "".join(
    section("address", f"prefix: {name}", f"distribution: {name}") for name in ("closest", "balanced", "multicast")
)


def program(kind: str) -> str:
    """How a router of this kind is started; the test is skipped where there is none."""
    if kind == OURS:
        return str(Path(sys.executable).with_name("routerd"))
    variable, package = PROGRAMS[kind]
    ours = Path(sys.executable).with_name(kind)  # the command of this name that runs a router of ours
    found = os.environ.get(variable) or shutil.which(kind)
    if not found or Path(found).resolve() == ours.resolve():
        # `make test` does not install the C routers: whoever has them tests with them
        pytest.skip(f"install {package}, or name its {kind} in {variable}, to test a network with it")
    return found


class Member:
    """A router of a network. ``costs``: by the names of those it connects to."""

    def __init__(
        self,
        network: "Network",
        name: str,
        kind: str,
        costs: dict[str, int],
        router: str = "",
        more: str = "",
        mode: str = "interior",
    ) -> None:
        self.network, self.name, self.kind, self.costs = network, name, kind, costs
        self.mode = mode
        self.port, self.inter_router_port, self.edge_port = free_port(), free_port(), free_port()
        self.host = self.inter_router_host = "127.0.0.1"  # where clients and routers connect to
        self.inter_router = ""  # attributes of its listener and connectors for routers
        self.router, self.more = router, more
        self.folder = network.folder / name
        self.folder.mkdir()
        self.process: subprocess.Popen[bytes] | None = None
        self.command = [program(kind)]

    def configuration(self) -> str:
        workers = "workers: 2" if self.kind == OURS else "workerThreads: 2"
        text = section("router", f"mode: {self.mode}", f"id: {self.name}", workers, self.router)
        anybody = "authenticatePeer: no", "saslMechanisms: ANONYMOUS"
        text += section("listener", f"host: {self.host}", f"port: {self.port}", *anybody)
        role = "edge" if self.mode == "edge" else "inter-router"
        if self.mode == "interior":
            place = f"host: {self.inter_router_host}", f"port: {self.inter_router_port}"
            text += section("listener", *place, "role: inter-router", *anybody, self.inter_router)
            place = f"host: {self.inter_router_host}", f"port: {self.edge_port}"
            text += section("listener", *place, "role: edge", *anybody)
        for name, cost in self.costs.items():
            far = self.network.members[name]
            port = far.edge_port if self.mode == "edge" else far.inter_router_port
            place = f"host: {far.inter_router_host}", f"port: {port}", f"cost: {cost}"
            text += section("connector", f"name: {name}", *place, f"role: {role}", self.inter_router)
        return text + TREATMENTS + self.more

    def start(self) -> Self:
        """Start, and wait until clients are served."""
        file = self.folder / "router.conf"
        file.write_text(self.configuration())
        arguments = ["run", "--config", file] if self.kind == OURS else ["-c", file]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command, *arguments], stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )
        return self

    def serving(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log
        with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), timeout=1):
            return True
        return False

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    def child(self, *role: str) -> psutil.Process:
        """One of the processes of a router of ours."""
        assert self.process is not None
        supervisor, name = self.process.pid, " ".join(role)
        until(lambda: name in roles(supervisor), f"{self.name} has {name}")
        return roles(supervisor)[name]

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it: all at once with SIGKILL, in good order otherwise."""
        if self.process is None or self.process.poll() is not None:
            return
        children = psutil.Process(self.process.pid).children(recursive=True)
        if how == signal.SIGKILL:
            os.killpg(self.process.pid, how)
        else:
            self.process.send_signal(how)
        try:
            self.process.wait(LONG)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            psutil.wait_procs(children, LONG)  # its ports are free then

    def complaints(self) -> list[str]:
        """What it says of others, or of itself, that is wrong; lost connections are not."""
        lines = re.findall(r"(?m)^.*(?:\((?:warning|error|critical)\)|Traceback).*$", self.log)
        return [line for line in lines if not re.search(EXPECTED, line)]


EXPECTED: Final = (
    r"HTTP support is not available|"
    r"No protocol header found|"  # a test that looked whether it is there
    r"Connection to \S+ failed: proton:io|next attempt in|"  # of which one router was not there yet
    r"Received MAU from an unknown router"  # qdrouterd and skrouterd, of one that they get to know just then
)


class Network:
    """Routers that are to be one network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.members: dict[str, Member] = {}

    def add(self, name: str, kind: str = OURS, costs: dict[str, int] | None = None, **options: str) -> Member:
        """A router that will connect to others, which were added before."""
        self.members[name] = Member(self, name, kind, costs or {}, **options)
        return self.members[name]

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def place(self, name: str) -> str:
        """Where a router's own addresses are."""
        return f"_edge/{name}" if self.members[name].mode == "edge" else f"_topo/0/{name}"

    def start(self) -> None:
        """Start all, and wait until each knows a way to each."""
        for member in self.members.values():
            member.start()
        self.converge()

    def converge(self, *names: str) -> None:
        """Wait until these routers (all) can reach each other."""
        for name in names or self.members:
            until(self.members[name].serving, f"{name} serves")
        interiors = tuple(name for name, one in self.members.items() if one.mode == "interior")
        for name in names or interiors:
            self.knows(name, names or interiors)

    def knows(self, name: str, names: tuple[str, ...]) -> None:
        """Wait until a router has a way to others, as its management says."""

        def there() -> bool:
            time.sleep(0.1)
            known = {row["id"] for row in nodes(self.members[name]) if row["cost"]}
            return known >= set(names) - {name}

        until(there, f"{name} knows {names}")

    def end(self) -> None:
        for member in self.members.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                member.end()


def query(member: Member, kind: str, attributes: list[str], router: str = "") -> list[dict[str, Any]]:
    """Entities of a router's management; ``router``: ask another one through this one."""
    with Net(member.address) as net:
        peer = net.peer()
        receiver = peer.receiver(None, 10)
        sender = peer.ready_sender(f"{member.network.place(router)}/$management" if router else "$management")
        prefix = "io.skupper.router" if (net_kind(member, router) == SKUPPER) else "org.apache.qpid.dispatch"
        request = Message(
            reply_to=receiver.remote_source.address,
            correlation_id=1,
            properties={
                "operation": "QUERY",
                "entityType": f"{prefix}.{kind}",
                "type": "org.amqp.management",
                "name": "self",
            },
            body={"attributeNames": attributes},
        )
        net.send(sender, request)
        body = peer.take(receiver)[0].message.body
        assert isinstance(body, dict), body
        return [dict(zip(body["attributeNames"], row, strict=True)) for row in body["results"]]


def net_kind(member: Member, router: str) -> str:
    return member.network.members[router].kind if router else member.kind


def nodes(member: Member, router: str = "") -> list[dict[str, Any]]:
    """The routers that one knows."""
    return query(member, "router.node", ["id", "nextHop", "cost", "validOrigins"], router)
