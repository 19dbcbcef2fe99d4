"""Every attribute of a vhost and of its groups, from the file to where it counts: none is forgotten."""

import msgspec
import pytest

from routerd.config import parse
from routerd.config.entities.attribute import Entity
from routerd.config.entities.policy import UserGroup, Vhost
from routerd.translate.security import policy_setup
from workers.control.policy import DeniedError, Grant, Policy

# What stands in the group, and what follows for alice at 10.0.0.1: fields of her grant, or of its admission.
GROUP: dict[str, tuple[str, dict[str, object]]] = {
    "users": ("alice, bob", {"group": "g"}),
    "remoteHosts": ("10.0.0.1", {"host": "10.0.0.1"}),
    "maxConnectionsPerUser": ("3", {"max_connections_per_user": 3}),
    "maxConnectionsPerHost": ("4", {"max_connections_per_host": 4}),
    "maxMessageSize": ("5", {"max_message_size": 5}),
    "maxFrameSize": ("600", {"max_frame_size": 600}),
    "maxSessionWindow": ("700", {"max_session_window": 700}),
    "maxSessions": ("6", {"max_sessions": 6}),
    "maxSenders": ("7", {"max_senders": 7}),
    "maxReceivers": ("8", {"max_receivers": 8}),
    "allowDynamicSource": ("yes", {"allow_dynamic_source": True}),
    "allowAnonymousSender": ("yes", {"allow_anonymous_sender": True}),
    "allowUserIdProxy": ("yes", {"user_id": None}),
    "allowWaypointLinks": ("no", {"allow_waypoint_links": False}),
    "allowDynamicLinkRoutes": ("no", {"allow_dynamic_link_routes": False}),
    "allowAdminStatusUpdate": ("no", {"allow_admin_status_update": False}),
    "allowFallbackLinks": ("no", {"allow_fallback_links": False}),
    "management": ("read", {"management": "read"}),
    "sources": ("a, b_${user}", {"sources": ["a", "b_alice"]}),
    "targets": ("a*", {"targets": ["a*"]}),
    "sourcePattern": ("${user}.#", {"source_patterns": ["alice.#"]}),
    "targetPattern": ("c.*", {"target_patterns": ["c.*"]}),
}
VHOST: dict[str, tuple[str, dict[str, object]]] = {
    "hostname": ("h", {"vhost": "h"}),
    "aliases": ("other, h2", {"vhost": "h"}),
    "maxConnections": ("2", {"max_connections": 2}),
    "maxMessageSize": ("9", {"max_message_size": 9}),
    "maxConnectionsPerUser": ("3", {"max_connections_per_user": 3}),
    "maxConnectionsPerHost": ("4", {"max_connections_per_host": 4}),
    "allowUnknownUser": ("yes", {"group": "$default"}),
}
LEAST = {"users": "alice", "remoteHosts": "*"}


def granted(vhost: dict[str, str], group: dict[str, str], asked: str = "h", user: str = "alice") -> Grant:
    """What a router with this vhost in its file grants."""
    name = "$default" if "allowUnknownUser" in vhost else "g"
    lines = "".join(f"{key}: {value}\n" for key, value in ({"hostname": "h"} | vhost).items())
    inner = "".join(f"{key}: {value}\n" for key, value in (LEAST | group).items())
    policy = "policy {\nenableVhostPolicy: yes\n}\n"
    text = f"{policy}vhost {{\n{lines}groups: {{\n{name}: {{\n{inner}}}\n}}\n}}\n"
    config = parse(text, "f.conf")
    vhosts = [one for one in config.entities if isinstance(one, Vhost)]
    return Policy(policy_setup(config.policy, vhosts)).grant(asked, user, "10.0.0.1")


def shown(grant: Grant, name: str) -> object:
    return getattr(grant if name in Grant.__struct_fields__ else grant.admission, name)


def test_no_attribute_is_left_out() -> None:
    """A new one needs a line above."""
    everywhere = {one.encode_name for one in msgspec.structs.fields(Entity)}
    for entity, known in ((UserGroup, {*GROUP}), (Vhost, {*VHOST, "groups"})):
        assert known == {one.encode_name for one in msgspec.structs.fields(entity)} - everywhere


@pytest.mark.parametrize("name", GROUP)
def test_what_a_group_says_counts(name: str) -> None:
    value, expected = GROUP[name]
    grant, plain = granted({}, {name: value}), granted({}, {})
    assert {field: shown(grant, field) for field in expected} == expected
    told_apart = name in ("users", "remoteHosts") or any(
        shown(plain, field) != wanted for field, wanted in expected.items()
    )
    assert told_apart, "the default would do, too"


@pytest.mark.parametrize("name", VHOST)
def test_what_a_vhost_says_counts(name: str) -> None:
    value, expected = VHOST[name]
    grant = granted({name: value}, {}, "h2" if name == "aliases" else "h")
    assert {field: shown(grant, field) for field in expected} == expected


def test_who_is_not_meant_is_denied() -> None:
    """Another user, another machine, another name."""
    for arguments in (({}, {"users": "bob"}), ({}, {"remoteHosts": "10.0.0.2"}), ({"aliases": "x"}, {}, "y")):
        with pytest.raises(DeniedError):
            granted(*arguments)  # type: ignore[arg-type]  # two or three


def test_a_group_goes_before_its_vhost() -> None:
    """In what both may say."""
    both = {"maxConnectionsPerUser": "9", "maxConnectionsPerHost": "9", "maxMessageSize": "9"}
    admission = (grant := granted(both, dict.fromkeys(both, "1"))).admission
    assert admission is not None
    assert (admission.max_connections_per_user, admission.max_connections_per_host) == (1, 1)
    assert grant.max_message_size == 1
