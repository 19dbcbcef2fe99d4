"""Configurations with the features of those that qdrouterd's users publish (docs/migration.md)."""

from pathlib import Path

import pytest

from routerd.config import Config, load
from tests.support.values.mistakes import told

AS_PACKAGED = """
# comments, blank lines, a value with a comment behind it
router {
    mode: standalone
    id: Router.A   # unique
}

listener {
    host: 0.0.0.0
    port: amqp
    authenticatePeer: no
}

address {
    prefix: closest
    distribution: closest
}

address {
    prefix: multicast
    distribution: multicast
}
"""

BEFORE_1_0_SPELLING = """
router {
    id: host.example.com
    mode: interior
    worker-threads: 2
    sasl-config-path: /etc/sasl2
    debug-dump: /tmp/dump.txt
}
listener {
    host: 0.0.0.0
    port: 5646
    role: inter-router
    sasl-mechanisms: ANONYMOUS
    idle-timeout-seconds: 0
    max-frame-size: 65536
    strip-annotations: no
}
connector {
    name: broker
    host: 127.0.0.1
    port: 5671
    role: route-container
    sasl-mechanisms: PLAIN
    sasl-username: agent
    sasl-password: pass:secret
    idle-timeout-seconds: 0
    verify-host-name: no
}
link-route {
    prefix: jobs.
    dir: in
    connection: broker
}
linkRoute {
    prefix: jobs.
    dir: out
    connection: broker
}
log {
    module: DEFAULT
    enable: debug+
    timestamp: true
    source: no
    output: stderr
}
"""

BROKER_QUEUES = """
router {
    mode: interior
    id: Aggregator
}
listener {
    name: console
    role: normal
    port: 5673
    http: yes
}
connector {
    name: one
    host: broker-1.example.com
    port: 61617
    role: route-container
    saslMechanisms: ANONYMOUS
}
address {
    prefix: tasks
    waypoint: yes
}
autoLink {
    addr: tasks
    connection: one
    dir: in
}
autoLink {
    address: tasks
    connection: one
    direction: out
    externalAddr: tasks::queue
}
"""

POLICY = """
router {
    id: Guarded
}
listener {
    port: amqp
    saslMechanisms: ANONYMOUS
}
policy {
    maxConnections: 1000
    enableVhostPolicy: true
    defaultVhost: public
}
vhost {
    id: public
    maxConnections: 50
    allowUnknownUser: true
    groups: {
        "$default": {
            "remoteHosts": "*",
            "allowDynamicSource": true,
            "allowAnonymousSender": true,
            "sources": "*",
            "targets": "${user}_in, work",
        },
        admin: {
            users: alice, bob
            remoteHosts: 10.0.0.1, 10.0.0.5-10.0.0.9
            sources: *
        }
    }
}
"""


@pytest.fixture
def taken(request: pytest.FixtureRequest, tmp_path: Path) -> Config:
    """A configuration, from a file as it would be copied."""
    file = tmp_path / "qdrouterd.conf"
    file.write_text(request.param)
    return load(file)


def warned(config: Config) -> str:
    return "\n".join(map(str, config.warnings))


@pytest.mark.parametrize("taken", [AS_PACKAGED], indirect=True)
def test_as_packages_install_it(taken: Config) -> None:
    assert (taken.router.id, len(taken.addresses), taken.warnings) == ("Router.A", 2, ())
    assert [(one.host, one.port_number) for one in taken.listeners] == [("0.0.0.0", 5672)]


@pytest.mark.parametrize("taken", [BEFORE_1_0_SPELLING], indirect=True)
def test_names_with_dashes_and_names_of_before(taken: Config) -> None:
    assert (taken.router.workers, taken.router.sasl_config_dir) == (2, "/etc/sasl2")
    assert [log.output_file for log in taken.logs] == ["stderr"]
    for name in ("workerThreads", "saslConfigPath", "timestamp", "output", "dir", "verifyHostName"):
        assert f"Attribute '{name}' of entity" in warned(taken)


@pytest.mark.parametrize("taken", [BROKER_QUEUES], indirect=True)
def test_queues_of_brokers(taken: Config) -> None:
    assert taken.count == 6
    assert [one.http for one in taken.listeners] == [True]
    assert "Use 'externalAddress' instead" in warned(taken)


@pytest.mark.parametrize("taken", [POLICY], indirect=True)
def test_policy_in_both_notations(taken: Config) -> None:
    assert taken.policy.default_vhost == "public"
    assert "'id' of entity 'vhost' has been deprecated" in warned(taken)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("container", "router"),
        ("fixedAddress", "address"),
        ("fixed-address", "address"),
        ("linkRoutePattern", "linkRoute"),
        ("policyRuleset", "vhost"),
    ],
)
def test_an_entity_of_early_versions_is_told_its_successor(old: str, new: str) -> None:
    """And not the name that is most like it, which was "connector" for "container"."""
    (mistake,) = told(f"{old} {{\n}}\nlistener {{\n}}\n")
    assert mistake == f"1: there is no entity '{old}' any more; write {new} instead"


@pytest.mark.parametrize("entity", ["listener", "connector"])
def test_an_attribute_of_early_versions_is_told_its_successor(entity: str) -> None:
    (mistake,) = told(f"{entity} {{\n addr: 127.0.0.1\n port: 1\n}}\nlistener {{\n}}\n")
    assert mistake == f"2: {entity} addr: there is no such attribute any more; write host instead"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("enableAccessRules", "enableVhostPolicy"),
        ("policyFolder", "policyDir"),
        ("policy-folder", "policyDir"),
        ("maximumConnections", "maxConnections"),
        ("defaultApplication", "defaultVhost"),
    ],
)
def test_a_policy_of_early_versions_is_not_told_to_go_without(old: str, new: str) -> None:
    """Who had removed `enableAccessRules`, as was the advice, let everybody in."""
    (mistake,) = told(f"policy {{\n {old}: x\n}}\nlistener {{\n}}\n")
    assert mistake == f"2: policy {old}: there is no such attribute any more; write {new} instead"


@pytest.mark.parametrize("kind", ["tcpListener", "tcpConnector", "httpListener", "httpConnector"])
def test_services_that_are_no_amqp_are_no_misspelt_listeners(kind: str) -> None:
    """qdrouterd and skupper-router carry TCP and HTTP besides."""
    (mistake,) = told(f"{kind} {{\n port: 1\n}}\nlistener {{\n}}\n")
    why = "routerd carries no TCP or HTTP; leave that service to another router"
    assert mistake == f"1: there is no entity '{kind}': {why}"


def test_a_role_of_early_versions_is_told_its_successor() -> None:
    (mistake,) = told("connector {\n role: on-demand\n port: 1\n}\nlistener {\n}\n")
    assert mistake.endswith("(perhaps route-container)")
