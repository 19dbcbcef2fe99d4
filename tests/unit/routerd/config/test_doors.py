"""Doors that stand open: `check` warns of each, with file and line, and of no other."""

import pytest

from routerd.config import parse

POLICY = "policy {\nenableVhostPolicy: yes\n}\n"
INTERIOR = "router {\nmode: interior\n}\n"


def warned(text: str) -> list[str]:
    """The warnings of a configuration, as `check` prints them."""
    return [str(one) for one in parse(text, "f.conf").warnings]


def listener(*lines: str, port: str = "amqp") -> str:
    return "listener {\n" + "".join(f"{line}\n" for line in lines) + f"port: {port}\n}}\n"


def connector(*lines: str) -> str:
    return listener("host: 127.0.0.1") + "connector {\n" + "".join(f"{line}\n" for line in lines) + "}\n"


def group(*lines: str, name: str = "staff") -> str:
    inner = "".join(f"{line}\n" for line in lines)
    vhost = f"vhost {{\nhostname: h\ngroups: {{\n{name}: {{\n{inner}}}\n}}\n}}\n"
    return listener("host: 127.0.0.1") + POLICY + vhost


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (listener("host: 127.0.0.1", "saslMechanisms: PLAIN SCRAM-SHA-256"), 3, "skips the login"),
        (listener("host: ::1", "saslMechanisms: SCRAM-SHA-256"), 3, "skips the login"),
        (listener("host: 10.0.0.1", "saslMechanisms: PLAIN", "authenticatePeer: yes"), 3, "in clear text to"),
        (listener("authenticatePeer: yes"), 1, "PLAIN sends passwords in clear text to any address:amqp"),
        (listener("saslMechanisms: PLAIN ANONYMOUS"), 2, "in clear text to any address"),
        (listener("host: 0.0.0.0", "management: all"), 3, "everybody who reaches 0.0.0.0:amqp change the"),
        (INTERIOR + listener("role: edge", "management: all"), 6, "who reaches any address:amqp change the"),
        (INTERIOR + POLICY + listener("role: inter-router"), 8, "is a router, whom no vhost policy bounds"),
        (INTERIOR + POLICY + listener("role: edge", "host: 127.0.0.1"), 8, "amqp is an edge router"),
        (connector("host: broker", "saslUsername: u", "saslPassword: p"), 8, "is sent to whoever answers at"),
        (connector("host: broker", "saslPassword: p", "saslMechanisms: SCRAM-SHA-256 PLAIN"), 7, "in clear text"),
        (listener("host: 10.0.0.1", "multiTenant: yes"), 3, "names the vhost it likes, or none"),
        (group("users: alice", "sources: a"), 10, "staff lets nobody in without remoteHosts"),
    ],
)
def test_check_warns_of_a_door_that_stands_open(text: str, line: int, what: str) -> None:
    """Once, in one line, with the place of the attribute; what it costs and what to say instead."""
    (found,) = warned(text)
    assert found.startswith(f"f.conf:{line}: "), found
    assert what in found
    assert ";" in found
    assert "\n" not in found


@pytest.mark.parametrize(
    "text",
    [
        listener("host: 10.0.0.1"),
        listener("management: read"),
        listener("host: 127.0.0.1", "management: all"),
        listener("host: 127.0.0.1", "saslMechanisms: PLAIN", "authenticatePeer: yes"),
        listener("host: localhost", "saslMechanisms: PLAIN ANONYMOUS"),
        listener("saslMechanisms: SCRAM-SHA-256", "authenticatePeer: yes", "management: all"),
        listener("saslMechanisms: PLAIN", "authenticatePeer: yes", "requireEncryption: yes"),
        INTERIOR + listener("role: inter-router"),
        INTERIOR + POLICY + listener("role: edge", "authenticatePeer: yes", "saslMechanisms: SCRAM-SHA-256"),
        connector("host: 127.0.0.1", "saslUsername: u", "saslPassword: p"),
        connector("host: broker", "saslPassword: p", "saslMechanisms: SCRAM-SHA-256"),
        listener("host: 127.0.0.1", "multiTenant: yes"),
        listener("host: 10.0.0.1", "multiTenant: yes", "policyVhost: red"),
        POLICY + listener("host: 10.0.0.1", "multiTenant: yes"),
        group("users: alice", "remoteHosts: *"),
        group("sources: a", name="$connector"),
    ],
)
def test_check_says_nothing_of_doors_that_are_shut(text: str) -> None:
    """Or that are open to this machine only, or by intent."""
    assert warned(text) == []
