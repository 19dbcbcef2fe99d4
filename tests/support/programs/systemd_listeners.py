"""Runs inside the container: a router with every kind of listener there is, and somebody at each of them."""

import json
import shutil
import ssl
import subprocess
import time
import urllib.request
from pathlib import Path

from proton import Message, SSLDomain
from proton.utils import BlockingConnection

from tests.model.ockam_framing import TODAY
from tests.support.clients import websocket
from tests.support.clients.ockam_node import Node
from tests.support.clients.rmr import Link
from tests.support.clients.rmr_frames import Frame

FOLDER = Path("/etc/routerd")
GIVEN = Path("/opt/given")
FLOWS = Path("/var/lib/routerd/flows")
POLICY_LOG = Path("/var/log/routerd/policy.log")
HTTP = {"http": 8080, "https": 8443}
AMQP = {"": 5672, "for routers": 55671, "for edge routers": 45671}
TLS, RMR, OCKAM = 5671, 4560, 4000
PROCESSES = 6
PATIENCE = 60  # seconds: a watchdog's time and a start, on a machine with much else to do
PAGES = (
    "/", "/status.json", "/metrics", "/metrics?connections=1", "/metrics?name[]=routerd_connections",
    "/healthz", "/readyz",
)  # fmt: skip

LISTENERS = f"""
listener {{
    name: for routers
    host: 127.0.0.1
    port: {AMQP["for routers"]}
    role: inter-router
}}
listener {{
    name: for edge routers
    host: 127.0.0.1
    port: {AMQP["for edge routers"]}
    role: edge
}}
sslProfile {{
    name: tls
    certFile: {FOLDER}/router.pem
    privateKeyFile: {FOLDER}/router-key.pem
}}
listener {{
    host: 127.0.0.1
    port: {TLS}
    sslProfile: tls
    requireSsl: yes
}}
listener {{
    host: 127.0.0.1
    port: {HTTP["http"]}
    http: yes
}}
listener {{
    host: 127.0.0.1
    port: {HTTP["https"]}
    http: yes
    sslProfile: tls
    requireSsl: yes
}}
routeTable {{
    name: ric
    seed: {FOLDER}/ric.rt
}}
listener {{
    host: 127.0.0.1
    port: {RMR}
    protocol: rmr
    table: ric
}}
listener {{
    host: 127.0.0.1
    port: {OCKAM}
    protocol: ockam
}}
flowLog {{
    directory: {FLOWS}
}}
log {{
    module: POLICY
    outputFile: {POLICY_LOG}
}}
"""


def prepare() -> None:
    """The files that the configuration names, as the service's user may read them."""
    for file in GIVEN.glob("*.pem"):
        shutil.copy(file, FOLDER)
    (FOLDER / "ric.rt").write_text("newrt|start|one\nrte|1000|127.0.0.1:4561\nnewrt|end|1\n")
    for file in FOLDER.iterdir():
        shutil.chown(file, group="routerd")
        file.chmod(0o640)


def pages() -> dict[str, int]:
    """What each page of each HTTP listener answers."""
    found = {}
    for scheme, port in HTTP.items():
        for page in PAGES:
            url = f"{scheme}://127.0.0.1:{port}{page}"
            context = _trust() if scheme == "https" else None
            with urllib.request.urlopen(url, timeout=PATIENCE, context=context) as answer:  # noqa: S310  our own URL
                found[url] = answer.status if answer.read() else 0
    return found


def series(metric: str) -> dict[str, float]:
    """A metric's value by process."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{HTTP['http']}/metrics", timeout=PATIENCE).read().decode()
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(f"{metric}{{")]
    return {labels.split('process="')[1].split('"')[0]: float(value) for labels, value in lines}


def visit() -> dict[str, object]:
    """Use every listener; what was seen there."""
    seen: dict[str, object] = {"pages": pages()}
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(FOLDER / "authority.pem"))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
    for url, ssl_domain in {
        **{f"amqp://127.0.0.1:{port}": None for port in AMQP.values()},
        f"amqps://127.0.0.1:{TLS}": domain,
    }.items():
        connection = BlockingConnection(url, timeout=PATIENCE, ssl_domain=ssl_domain)
        if url.endswith(f":{AMQP['']}"):
            receiver = connection.create_receiver("examples")
            connection.create_sender("examples").link.send(Message(body="hello"))
            seen["body"] = receiver.receive(timeout=PATIENCE).body
            receiver.accept()
        connection.close()
    sock, answer = websocket.ask(("127.0.0.1", HTTP["http"]))
    sock.close()
    seen["websocket"] = answer.partition("\r\n")[0]
    link = Link.to(f"127.0.0.1:{RMR}")
    link.send(Frame(1000, b"x"))
    with Node.to(("127.0.0.1", OCKAM), TODAY) as node:
        node.send("0#nobody")
        seen["frames"] = {"rmr": _counted("rmr_received_frames"), "ockam": _counted("ockam_frames_in")}
    link.socket.close()
    seen["figures"] = _figures()
    rows = json.loads(
        subprocess.run(
            ["/opt/routerd/bin/routerd", "stat", "--workers", "--json", "--bus", "127.0.0.1:5672"],
            capture_output=True, text=True, check=True,
        ).stdout
    )  # fmt: skip
    seen["managed"] = {row["name"]: bool(row["pid"] and row["memory"] and row["cpus"]) for row in rows}
    return seen


def _figures() -> dict[str, list[str]]:
    """Which processes have figures, by metric, once the last of them has: it may still be starting."""
    end = time.monotonic() + PATIENCE
    while True:
        found = {
            name: sorted(process for process, value in series(f"routerd_process_{name}").items() if value > 0)
            for name in ("up", "start_time_seconds", "cpu_seconds_total", "resident_memory_bytes")
        }
        if all(len(names) == PROCESSES for names in found.values()) or time.monotonic() > end:
            return found
        time.sleep(0.05)


def _counted(name: str) -> bool:
    """Whether the router has counted something, within a time."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if any(series(f"routerd_{name}_total").values()):
            return True
        time.sleep(0.05)
    return False


def _trust() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=FOLDER / "authority.pem")
