"""A router with a listener for each protocol, and where attackers find them."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.programs import sasl_users
from tests.support.running import Configuration, free_port, router_id

PATIENCE = 5  # seconds that silent clients have


@dataclass(frozen=True)
class Target:
    """The ports of a router on this machine, and its configuration."""

    folder: Path
    router: str  # its id
    amqp: int
    login: int
    tls: int
    http: int
    rmr: int
    ockam: int
    neighbour: int
    edge: int

    @classmethod
    def made(cls, folder: Path) -> "Target":
        """One with certificates, users and a route table in the folder."""
        sasl_users.make(folder, alice="secret")
        Authority(folder).issue("server", "/CN=localhost")
        (folder / "table").write_text("newrt|start\nmse|1004|-1|127.0.0.1:1\nnewrt|end|1\n")
        return cls(folder, router_id(folder), *(free_port() for _ in range(8)))

    def listener(self, port: int, more: str) -> str:
        patience = f"initialHandshakeTimeoutSeconds: {PATIENCE}\n idleTimeoutSeconds: {2 * PATIENCE}"
        if "http" in more or "protocol" in more:
            patience = ""
        return f"listener {{\n host: 127.0.0.1\n port: {port}\n {more}\n {patience}\n}}\n"

    @property
    def configuration(self) -> Configuration:
        """What the router is started with."""
        files = f"certFile: {self.folder}/server.pem\n privateKeyFile: {self.folder}/server-key.pem"
        ockam = "name: today\n protocol: ockam\n framing: cbor\n routeAddress: today\n reach: today.q"
        sections = [
            f"sslProfile {{\n name: p\n {files}\n}}\n",
            self.listener(self.login, "authenticatePeer: yes"),
            self.listener(self.tls, "sslProfile: p\n requireSsl: yes"),
            self.listener(self.http, "http: yes"),
            f"routeTable {{\n name: rt\n seed: {self.folder}/table\n connect: no\n}}\n",
            self.listener(self.rmr, "protocol: rmr\n table: rt"),
            self.listener(self.ockam, ockam),
            self.listener(self.neighbour, "role: inter-router\n authenticatePeer: no"),
            self.listener(self.edge, "role: edge\n authenticatePeer: no"),
            "routeWorker {\n kind: forward\n address: hop\n allow: local, uplink:today, worker:hop\n}\n",
            "routeWorker {\n kind: static\n address: loop\n route: loop\n allow: uplink:today, worker:loop\n}\n",
            "address {\n prefix: hostile.mc\n distribution: multicast\n}\n",
        ]
        amqp = self.listener(self.amqp, "authenticatePeer: no").partition("{")[2].rpartition("}")[0]
        router = f"mode: interior\n workers: 2\n saslConfigDir: {self.folder}\n saslConfigName: routerd"
        return Configuration(router=router, listener=amqp, sections="".join(sections))

    @property
    def trusting(self) -> ssl.SSLContext:
        """For clients that do not care who the router is."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
