"""A router with all kinds of listeners and of rights, and clients that say what an attacker wants."""

from pathlib import Path
from typing import Any

from proton import SASL, Link, Sender, Transport, symbol

from tests.support.peer import Net, Peer, error_of, is_closed, is_open
from tests.support.programs import sasl_users
from tests.support.running import Configuration

NOT_ALLOWED = "amqp:unauthorized-access"
TOO_MANY = "amqp:resource-limit-exceeded"

GROUP = """
vhost {{
    hostname: {}
    allowUnknownUser: yes
    groups: {{
        $default: {{
            remoteHosts: *
            {}
        }}
    }}
}}
"""
ALL = ["sources: *", "targets: *", "allowAnonymousSender: yes", "allowDynamicSource: yes"]
VHOSTS = {
    "reads": [*ALL, "management: read"],
    "manages": [*ALL, "management: none"],
    "own": ["sources: pub, u_${user}, _edge/${user}", "targets: pub, u_${user}"],
    "all": ALL,
    "common": [
        "sources: *, _local/meet",
        "targets: *, _local/*",
        "allowAnonymousSender: yes",
        "allowDynamicSource: yes",
    ],
    "tight": ["sources: pub, lr.pub", "targets: pub, lr.pub", "allowDynamicSource: yes"],
    "still": ["sources: pub, lr.pub", "targets: pub, lr.pub", "allowUserIdProxy: yes"],
    "loose": ["sources: pub", "targets: pub", "allowAnonymousSender: yes", "allowDynamicSource: yes"],
    "bare": ["sources: pub", "targets: pub, lr.pub", "allowWaypointLinks: no", "allowFallbackLinks: no"],
    "small": [
        "sources: pub",
        "targets: pub, lr.pub",
        "maxSenders: 1",
        "maxReceivers: 1",
        "maxMessageSize: 1000",
        "maxConnectionsPerUser: 1",
    ],
    "routes": ["sources: mine*", "targets: mine*, $management"],
    "transacted": ["targets: $coordinator"],
    "brokers": ["sources: *", "targets: *", "allowUserIdProxy: yes", "allowAnonymousSender: yes"],
}
LISTENERS = {
    "normal": ["multiTenant: no"],
    "route-container": ["role: route-container", "policyVhost: brokers"],
    "edge": ["role: edge"],
    "tenant": ["multiTenant: yes"],
    "web": ["http: yes"],
}
ROUTES = """
linkRoute {{
    prefix: {0}
    direction: in
    containerId: broker
}}
linkRoute {{
    prefix: {0}
    direction: out
    containerId: broker
}}
"""
USERS = SASL.extended()  # whether the engine knows any
LOGIN = "saslMechanisms: ANONYMOUS PLAIN" if USERS else "saslMechanisms: ANONYMOUS"
SECRET = "secret"  # noqa: S105 - of this test


def configured(folder: Path) -> Configuration:
    """The router; users are kept in a folder."""
    settings = "mode: interior"
    if USERS:
        sasl_users.make(folder, alice=SECRET, bob=SECRET)
        settings += f"\n saslConfigDir: {folder}\n saslConfigName: routerd"
    first, *further = ["\n".join(["host: 127.0.0.1", "port: 0", LOGIN, *more]) for more in LISTENERS.values()]
    listeners = ["listener {\n" + one + "\n}\n" for one in further]
    vhosts = [GROUP.format(name, "\n".join(said)) for name, said in VHOSTS.items()]
    routes = [ROUTES.format(prefix) for prefix in ("lr", "tight/lr", "small/lr", "$coordinator")]
    policy = "policy {\n enableVhostPolicy: yes\n}\n"
    expected = "edge router"  # what wants to be one that it is not is told
    return Configuration(settings, first, policy + "".join(listeners + vhosts + routes), expected)


class User(Peer):
    """A client that logs in with its password."""

    def __init__(self, *arguments: Any, user: str, **more: Any) -> None:
        self.user = user
        super().__init__(*arguments, **more)

    def begin_transport(self, sasl: bool) -> Transport:
        self.connection.user, self.connection.password = self.user, SECRET
        transport = Transport()
        transport.sasl().allow_insecure_mechs = True
        transport.sasl().allowed_mechs("PLAIN")
        return transport


def attach(peer: Peer, sends: bool, address: str | None = None, **more: Any) -> Link:
    """A link whose terminus says what an attacker wants it to."""
    assert peer.default_session is not None
    name = peer.name()
    link: Link = peer.default_session.sender(name) if sends else peer.default_session.receiver(name)
    terminus = link.target if sends else link.source
    terminus.address = address
    terminus.dynamic = more.get("dynamic", False)
    if "node" in more:
        terminus.properties.put_object(more["node"])
    if "capability" in more:
        terminus.capabilities.put_object(symbol(more["capability"]))
    peer.inboxes[link.name] = []
    link.open()
    return link


def outcome(net: Net, link: Link) -> str:
    """The condition by which a link is refused; empty: it is open."""
    net.until(lambda: is_closed(link) or _serves(link), "an answer")
    return error_of(link)[0] if is_closed(link) else ""


def _serves(link: Link) -> bool:
    if not is_open(link):
        return False
    terminus = link.remote_target if isinstance(link, Sender) else link.remote_source
    return bool(terminus.address or link.credit)


def node(address: object) -> dict[Any, Any]:
    """Properties of a dynamic node that is to lie at an address."""
    return {symbol("x-opt-qd.address"): address}
