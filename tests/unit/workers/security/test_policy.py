"""Vhost policy in a worker: who gets in, and with which grant."""

import socket

import pytest

from routerd.config.entities.policy import Policy as Configured
from routerd.config.entities.policy import Vhost
from routerd.translate import remote_hosts
from routerd.translate.security import policy_setup
from shm.contract.security import GroupSetup, PolicySetup, VhostSetup
from workers.control.policy import DeniedError, Policy, personal

DEFAULT = GroupSetup("$default", targets=["all_${user}"])
ADMINS = GroupSetup("admins", users=["alice", "bob"], allow_user_id_proxy=True, max_message_size=5)
HOME = GroupSetup("$default", hosts=[("10.0.0.1", "10.0.0.9"), ("fe80::1", "fe80::2")])


def policy(*vhosts: VhostSetup, **more: object) -> Policy:
    return Policy(PolicySetup(**{"enforce": True, "default_vhost": "", "vhosts": list(vhosts), **more}))  # type: ignore[arg-type]  # from keyword to field


def test_without_enforcement_only_the_size_counts() -> None:
    grant = policy(enforce=False, max_message_size=7).grant("anything", "", "1.2.3.4")
    assert (grant.admission, grant.max_message_size, grant.user_id) == (None, 7, None)


def test_a_connector_is_held_to_its_group_only_under_policy() -> None:
    """Without vhost policy its policyVhost means nothing; with it the group has to be there."""
    grant = policy(enforce=False, max_message_size=7).grant_connector("h")
    assert (grant.admission, grant.max_message_size) == (None, 7)
    groups = [DEFAULT, GroupSetup("$connector", max_message_size=5)]
    assert policy(VhostSetup("h", groups=groups)).grant_connector("h").max_message_size == 5
    with pytest.raises(DeniedError, match=r"has no group \$connector"):
        policy(VhostSetup("h", groups=[DEFAULT])).grant_connector("h")


def test_the_group_of_a_user_grants() -> None:
    it = policy(VhostSetup("h", ["alias"], allow_unknown_user=True, groups=[ADMINS, DEFAULT]))
    alice, carol = it.grant("h", "alice", "1.2.3.4"), it.grant("alias", "carol", "1.2.3.4")
    assert alice.admission is not None
    assert carol.admission is not None
    assert (alice.admission.group, alice.max_message_size, alice.user_id) == ("admins", 5, None)
    assert (carol.admission.vhost, carol.admission.group, carol.user_id) == ("h", "$default", "carol")
    assert carol.admission.targets == ["all_carol"]


@pytest.mark.parametrize(
    ("vhosts", "hostname", "user", "why"),
    [
        ([], "h", "alice", "there is no vhost for 'h'"),
        ([VhostSetup("h", groups=[ADMINS])], "h", "carol", "user 'carol' is in no group of vhost h"),
        ([VhostSetup("h", allow_unknown_user=True)], "h", "carol", "has no group \\$default"),
        ([VhostSetup("h", allow_unknown_user=True, groups=[HOME])], "h", "", "not allowed from this host"),
    ],
)
def test_who_is_denied_and_why(vhosts: list[VhostSetup], hostname: str, user: str, why: str) -> None:
    with pytest.raises(DeniedError, match=why):
        policy(*vhosts).grant(hostname, user, "10.0.0.10")


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("10.0.0.1", True),
        ("10.0.0.9", True),
        ("10.0.0.10", False),
        ("fe80::2", True),
        ("fe80::2%eth0", True),
        ("fe80::3", False),
        ("-", False),
    ],
)
def test_ranges_of_hosts_include_both_ends(host: str, allowed: bool) -> None:
    it = policy(VhostSetup("h", allow_unknown_user=True, groups=[HOME]))
    if allowed:
        assert it.grant("h", "", host).admission
    else:
        with pytest.raises(DeniedError):
            it.grant("h", "", host)


def test_hosts_by_name(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Every address that a name has lets in; a name that nobody knows lets nobody in, and is told."""
    known = {"gate.example": ["192.0.2.7", "2001:db8::7"], "far-away.example": ["198.51.100.1"]}

    def look_up(name: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        if name not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (address, 0)) for address in known[name]]

    remote_hosts.forget()
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    text = "10.0.0.1-10.0.0.9, gate.example, far-away.example, unknown.example"
    group = {"$default": {"users": "*", "remoteHosts": text}}
    vhost = Vhost(hostname="a", allow_unknown_user=True, groups=group)
    policy = Policy(policy_setup(Configured(enable_vhost_policy=True), [vhost]))
    remote_hosts.forget()
    for host in ("192.0.2.7", "2001:db8::7", "198.51.100.1", "10.0.0.5"):
        assert policy.grant("a", "u", host).admission is not None
    for host in ("192.0.2.8", "2001:db8::8", "10.0.0.10", "127.0.0.1"):
        with pytest.raises(DeniedError, match="not allowed from this host"):
            policy.grant("a", "u", host)
    assert "vhost 'a' group '$default' remoteHosts: host unknown.example is not known: Name or" in caplog.text


def test_the_default_vhost_takes_unknown_names() -> None:
    it = policy(VhostSetup("d", allow_unknown_user=True, groups=[DEFAULT]), default_vhost="d")
    assert it.grant("who", "", "1.2.3.4").admission


@pytest.mark.parametrize(
    ("hostname", "best"),
    [
        ("a.b", "a.b"),
        ("a.c", "a.*"),
        ("a.c.d", "a.#"),
        ("a", "a.#"),
        ("x.b", "*.b"),
        ("x.y", None),
        ("x.y.z.b", "#.z.b"),
        ("z.b", "*.b"),
    ],
)
def test_the_most_specific_pattern_wins(hostname: str, best: str | None) -> None:
    names = ["a.#", "a.*", "a.b", "*.b", "#.z.b", "none"]
    vhosts = [VhostSetup(name, allow_unknown_user=True, groups=[DEFAULT]) for name in names]
    admission = policy(*vhosts, patterns=True, default_vhost="none").grant(hostname, "", "1.2.3.4").admission
    assert admission is not None
    assert admission.vhost == (best or "none")


def test_a_host_name_that_takes_too_long_to_find_is_denied() -> None:
    """Though there is a vhost for all others: nobody has looked whether this is one of them."""
    vhosts = [VhostSetup(f"#.{'*.#.' * 8}x{i}", allow_unknown_user=True, groups=[DEFAULT]) for i in range(9)]
    vhosts.append(VhostSetup("d", allow_unknown_user=True, groups=[DEFAULT]))
    it = policy(*vhosts, patterns=True, default_vhost="d")
    assert it.grant("a.b", "", "1.2.3.4").admission
    with pytest.raises(DeniedError, match="takes more than 4000 steps"):
        it.grant("a." * 400, "", "1.2.3.4")


def test_patterns_count_only_when_enabled() -> None:
    vhost = VhostSetup("*.org", allow_unknown_user=True, groups=[DEFAULT])
    assert policy(vhost, patterns=True).grant("a.org", "", "1.2.3.4").admission
    with pytest.raises(DeniedError):
        policy(vhost).grant("a.org", "", "1.2.3.4")


@pytest.mark.parametrize(
    ("user", "granted"),
    [
        ("bob", ["x", "q_bob", "bob.${user}"]),
        ("a.b", ["x", "q_a.b", "a.b.${user}"]),
        ("*", ["x"]),  # a name that would open everything opens nothing
        ("b#", ["x"]),
        ("", ["x"]),
        ("bob.", ["x", "bob..${user}"]),  # `q_bob.` would be bob's `q_bob`
        ("bob/", ["x", "bob/.${user}"]),
        ("/bob", ["x", "q_/bob"]),  # as `/bob.` would be bob's at the beginning
        ("amqp:/bob", ["x", "q_amqp:/bob"]),
        ("amqp://host/bob", ["x", "q_amqp://host/bob"]),
    ],
)
def test_the_leftmost_user_is_put_in(user: str, granted: list[str]) -> None:
    assert personal(["x", "q_${user}", "${user}.${user}"], user) == granted
