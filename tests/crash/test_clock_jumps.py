"""The clock is set far ahead and back while a router works: nothing breaks, and new times are told.

Four seconds of it is waiting for what is due by another clock: files of the flow log, a hung process.
"""

import mmap
import os
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from proton import Message

from tests.support.certificates import Authority
from tests.support.clients.secured import Credentials, attempt, urls_of
from tests.support.clients.web import get, site
from tests.support.peer import ACCEPTED, Net
from tests.support.routers.hurt import HurtRouter
from tests.support.running import LONG, Configuration, address_of, until

HOUR, DAY = 3600, 86_400
VALID = range(30 * DAY)  # the shifts at which the clients' authority is good
NEAR = 600.0  # seconds; what a slow machine needs is far below, and what the clock jumps far above


class Shifted(HurtRouter):
    """A router whose time of day is what the test says."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        shim, told = folder / "clock_shim.so", folder / "shift"
        source = Path(__file__).with_name("clock_shim.c")
        command = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run([*command, source, "-o", shim], check=True)
        told.write_bytes(bytes(8))
        with told.open("r+b") as file:
            self._shift = mmap.mmap(file.fileno(), 8)
        self.shift, self.flows = 0, folder / "flows"
        server = authority.issue("server", "/CN=localhost")
        first = "host: 127.0.0.1\n port: 0\n"
        files = f"certFile: {server.certificate}\n privateKeyFile: {server.key}\n"
        sections = f"sslProfile {{\n name: p\n {files} caCertFile: {authority.certificate}\n}}\n"
        secured = "sslProfile: p\n requireSsl: yes\n authenticatePeer: yes\n saslMechanisms: EXTERNAL"
        for more in (secured, "initialHandshakeTimeoutSeconds: 1", "http: yes"):
            sections += f"listener {{\n {first} {more}\n}}\n"
        sections += f"flowLog {{\n directory: {self.flows}\n rollAge: 1\n}}\n"
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("LD_PRELOAD", str(shim))
            environment.setenv("CLOCK_SHIFT", str(told))
            super().__init__(folder, Configuration("workers: 1\n arenaSize: 8", first, sections))
        for who in ("exporter", "recorder"):
            until(lambda who=who: f"{who} serves" in self.log, who)

    def set_clock(self, shift: int) -> None:
        """Seconds ahead of the true time, in all processes at once."""
        self.shift = shift
        struct.pack_into("=q", self._shift, 0, shift)

    def is_now(self, moment: datetime) -> bool:
        """Whether its clock could have shown that."""
        return abs(moment.timestamp() - time.time() - self.shift) < NEAR

    def rows(self, address: str) -> list[tuple[str, datetime]]:
        """Rows of the flow log: the folder they stand in, and their time."""
        files = sorted((self.flows / "raw").rglob("*.parquet"))
        tables = [(file, pq.ParquetFile(file).read(columns=["address", "ts"])) for file in files]
        return [
            (f"{file.parent.parent.name}/{file.parent.name}", row["ts"].replace(tzinfo=UTC))
            for file, table in tables
            for row in table.to_pylist()
            if row["address"] == address
        ]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def router(tmp_path: Path, authority: Authority) -> Iterator[Shifted]:
    router = Shifted(tmp_path, authority)
    try:
        yield router
    finally:
        router.kill()


def test_the_clock_jumps_ahead_and_back(router: Shifted, authority: Authority) -> None:
    """Connections, deliveries and waits go on; certificates, log and flow log follow the new time."""
    client = authority.issue("client", "/CN=client")
    files = (authority.certificate, client.certificate, client.key)
    credentials = Credentials(*map(str, files), mechanisms="EXTERNAL")
    secured, impatient = urls_of(router.output)[1:3]
    before = router.children
    os.kill(before["exporter"], signal.SIGSTOP)  # is missed after 5 s, whatever the clock says meanwhile
    with Net(router.address) as net:
        at, to = net.peer(), net.peer()
        for shift in (HOUR, -DAY, 40 * DAY, 0):
            address, said = f"at.{shift}", len(router.log)
            receiver, sender = at.receiver(address, 2), to.ready_sender(address)
            with socket.create_connection(address_of(impatient), LONG) as silent:
                unsettled = net.send(sender, Message(body="before"))
                held = at.take(receiver)[0]
                router.set_clock(shift)
                sent = net.send(sender, Message(body="after"))
                held.settle()
                at.take(receiver)[0].settle()
                assert net.settled(unsettled, sent) == [ACCEPTED, ACCEPTED]
                outcome = attempt(secured, credentials)
                assert outcome.opened == (shift in VALID), outcome
                assert silent.recv(1) == b""  # it is sent away after a second
            lines = re.findall(r"(?m)^(.{32}) SERVER .* opened, ", router.log[said:])
            assert lines or not outcome.opened
            assert all(router.is_now(datetime.strptime(one, "%Y-%m-%d %H:%M:%S.%f %z")) for one in lines)
            until(lambda address=address: len(router.rows(address)) == 2, "rows of the flow log")
            hour, stamp = router.rows(address)[-1]
            assert router.is_now(stamp)
            begun = datetime.strptime(hour, "date=%Y-%m-%d/hour=%H").replace(tzinfo=UTC)
            assert -NEAR < (stamp - begun).total_seconds() < HOUR + NEAR
    until(lambda: "exporter died" in router.log, "end of the hung exporter")
    assert re.findall(r"(\w+) died .*why=\"hung", router.log) == ["exporter"]
    until(lambda: router.children.get("exporter") not in (None, before["exporter"]), "next exporter")
    assert get(site(router) + "/healthz").status == 200
    assert {**router.children, "exporter": 0} == {**before, "exporter": 0}
    router.hit("worker 0")
    until(lambda: "worker 0 serves" in router.log.partition("worker 0 died")[2], "next worker")
    router.stop()
