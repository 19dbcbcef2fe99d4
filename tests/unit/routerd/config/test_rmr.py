"""Listeners that speak RMR: what a configuration may say of them, and what workers are told."""

import os

import pytest

from routerd.config import ConfigError, parse
from routerd.config.entities.route_tables import LONGEST_ADDRESS
from routerd.config.entities.transport import Listener
from routerd.translate.tables import advertised
from shm.contract.hosts import machine_name

TABLE = "routeTable {\n name: ric\n}\n"


def mistakes(attributes: str, sections: str = TABLE) -> str:
    """All that is wrong with a listener; empty: nothing."""
    text = f"router {{\n id: A\n}}\n{sections}listener {{\n port: 0\n {attributes}\n}}\n"
    try:
        parse(text, "f.conf")
    except ConfigError as refused:
        return "\n".join(f"{one.line}: {one.text}" for one in refused.mistakes if not one.warning)
    return ""


@pytest.mark.parametrize("attribute", ["name", "address"])
def test_an_address_that_leaves_no_room_for_those_of_connections_is_refused(attribute):
    """Workers would not serve the table's listener."""

    def table(length):
        lines = (f" {name}: {text}\n" for name, text in ({"name": "t"} | {attribute: "a" * length}).items())
        return f"routeTable {{\n{''.join(lines)}}}\n"

    assert mistakes("", table(LONGEST_ADDRESS)) == ""
    assert f"{attribute}: 'aaa" in mistakes("", table(LONGEST_ADDRESS + 1))
    assert "has more than 877 octets" in mistakes("", table(LONGEST_ADDRESS + 1))


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (
            "name: a\n stash: /x/y",
            "name: b\n stash: /x/../x/y",
            "stash: '/x/y' is the stash of the table in line 4, too",
        ),
        ("name: a\n stash: /x", "name: b\n applications: /x", "applications: '/x' is the stash of the table in line 4"),
        ("name: a", "name: b\n stash: /x\n applications: /x", "applications: '/x' is its stash, too; give another"),
        ("name: a/b", "name: a_b", "stash: '/state/a_b.stash' is the stash of the table in line 4, too; give another"),
        ("name: a/b\n stash: /x\n applications: /z", "name: a_b", ""),
    ],
)
def test_tables_share_no_file(one, other, why, monkeypatch):
    """Each would begin with what the other one had, after the next start."""
    monkeypatch.setenv("STATE_DIRECTORY", "/state")
    found = mistakes("", f"routeTable {{\n {one}\n}}\nrouteTable {{\n {other}\n}}\n")
    assert why in found
    assert bool(found) == bool(why)


def test_a_listener_for_rmr(monkeypatch):
    """It names a table, which the environment may have made."""
    monkeypatch.delenv("RMR_SEED_RT", raising=False)
    assert mistakes("protocol: rmr\n table: ric\n advertised: router:4560\n replies: yes") == ""
    assert "rmr" in mistakes("protocol: rmr\n table: rmr", "")
    monkeypatch.setenv("RMR_SEED_RT", "/seed")
    assert mistakes("protocol: rmr\n table: rmr", "") == ""


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ("protocol: rmr", "table: is missing"),
        ("protocol: rmr\n table: other", "there is no routeTable 'other'"),
        ("protocol: rmr\n table: ric\n role: edge", "edge applies to AMQP only"),
        ("protocol: rmr\n table: ric\n http: yes", "http: applies to AMQP only"),
        ("protocol: rmr\n table: ric\n requireSsl: yes", "requireSsl: applies to AMQP only"),
        ("protocol: rmr\n table: ric\n advertised: router", "'router' is not host:port"),
        (f"protocol: rmr\n table: ric\n advertised: {'r' * 60}:456", "is not host:port with 63 octets at most"),
        (f"protocol: rmr\n table: ric\n host: {'r' * 58}", "has more than 57 octets"),
        ("table: ric", "table: applies to protocol: rmr only"),
        ("advertised: a:1", "advertised: applies to protocol: rmr only"),
        ("replies: yes", "replies: applies to protocol: rmr only"),
    ],
)
def test_what_is_refused(attributes, why):
    """With the attribute and what to do."""
    assert why in mistakes(attributes)


@pytest.mark.parametrize(
    ("listener", "name"),
    [
        (Listener(host="10.0.0.1"), "10.0.0.1"),
        (Listener(host="::1"), "[::1]"),
        (Listener(host="0.0.0.0", advertised="router:4560"), "router:4560"),
        (Listener(), "machine"),
    ],
)
def test_what_applications_reach_a_listener_by(monkeypatch, listener, name):
    """What is configured, its host, or the machine's name up to the first dot."""
    monkeypatch.setattr("socket.gethostname", lambda: "machine.example.org")
    assert advertised(listener) == name


def test_a_name_of_the_machine_that_is_no_text_is_shown(monkeypatch):
    """The kernel takes any octets; no router started on such a machine, whatever its listeners spoke."""
    monkeypatch.setattr("socket.gethostname", lambda: os.fsdecode(b"caf\xe9.example.org"))
    assert machine_name() == "caf?.example.org"
    assert advertised(Listener()) == "caf?"


def test_a_name_of_the_machine_that_is_long_fits_with_its_port(monkeypatch):
    """It is cut, and the check says so; a label of a name has 63 octets."""
    monkeypatch.setattr("socket.gethostname", lambda: f"{'m' * 63}.example.org")
    assert advertised(Listener()) == "m" * 57
    config = parse(f"{TABLE}listener {{\n port: 4560\n protocol: rmr\n table: ric\n}}\n", "f.conf")
    assert ["is cut in RMR messages" in one.text for one in config.warnings] == [True]
    config = parse(f"{TABLE}listener {{\n host: 10.0.0.1\n protocol: rmr\n table: ric\n}}\n", "f.conf")
    assert not config.warnings
