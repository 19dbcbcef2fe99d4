"""Changes that management asks for: the configuration that results, or every reason why it cannot be."""

import re
from typing import Any

import pytest

from routerd.config import Config, parse
from routerd.reload.changes import ChangeError, changed, kept, named
from routerd.reload.difference import difference
from routerd.translate.identities import Identities
from shm.contract.control import ChangeRequest

FILE = """
router {
    id: r
    managementDirs: /dev
}
listener {
    name: clients
    host: 127.0.0.1
    port: 5672
    linkCapacity: 7
}
vhost {
    hostname: here
    max-connections: 3
}
address {
    prefix: news
    name: wide
}
"""


class Running:
    """A configuration that changes."""

    def __init__(self, text: str = FILE) -> None:
        self.config = parse(text, "router.conf")
        self.identities = Identities()
        self.remarks: tuple[str, ...] = ()

    def ask(self, operation: str, kind: str, identity: str = "", /, **attributes: Any) -> list[str]:
        """What a change does, as it is logged."""
        new = changed(self.config, ChangeRequest(1, operation, kind, identity, attributes), self.identities)
        self.remarks = new.remarks
        found, self.config = difference(self.config, new.config), new.config
        assert not found.restart
        return found.applied

    def read_again(self, text: str) -> list[str]:
        self.config, dropped = kept(self.config, parse(text, "router.conf"))
        return dropped

    def identity(self, kind: str) -> list[str]:
        names = self.identities.of(at.entity for at in self.config.checked)
        return [name for name, at in zip(names, self.config.checked, strict=True) if at.type.short_name == kind]


@pytest.fixture
def running() -> Running:
    return Running()


def test_entities_come_and_go(running: Running) -> None:
    """With the same words in the log as when the file is read again."""
    assert running.ask("CREATE", "listener", name="more", host="127.0.0.1", port="5673") == [
        "listener more 127.0.0.1:5673 added"
    ]
    assert running.config.listeners[1].link_capacity is None
    assert running.ask("CREATE", "sslProfile", name="s", protocols="TLSv1.3") == ["sslProfile s added"]
    assert running.ask("DELETE", "listener", "listener/127.0.0.1:5673:more") == [
        "listener more 127.0.0.1:5673 removed; its connections stay"
    ]
    assert running.ask("DELETE", "sslProfile", "sslProfile/s") == ["sslProfile s removed"]


def test_what_the_file_says_can_be_changed_and_deleted(running: Running) -> None:
    """Other attributes stay, whatever their spelling; None takes one back to its default."""
    assert running.ask("UPDATE", "vhost", "vhost/here", maxConnectionsPerUser=1) == [
        "vhost changed: maxConnectionsPerUser"
    ]
    (vhost,) = running.config.entities
    assert (vhost.max_connections, vhost.max_connections_per_user) == (3, 1)  # type: ignore[attr-defined]  # a vhost
    running.ask("UPDATE", "vhost", "vhost/here", maxConnections=None)
    assert running.config.entities[0].max_connections == 65535  # type: ignore[attr-defined]  # a vhost
    running.ask("DELETE", "vhost", "vhost/here")
    assert running.config.entities == ()


def test_a_log_that_is_nowhere_configured_is_updated(running: Running) -> None:
    """Every module has one."""
    assert running.ask("UPDATE", "log", "log/SERVER", enable="debug+") == ["log SERVER added"]
    assert running.ask("UPDATE", "log", "log/SERVER", enable="info+") == [
        "log SERVER changed: enable from debug+ to info+"
    ]


@pytest.mark.parametrize(
    ("status", "what", "text"),
    [
        (400, ("CREATE", "listener", {"port": 5672, "host": "127.0.0.1"}), "in router.conf:6"),
        (400, ("CREATE", "listener", {"port": "nowhere"}), "'nowhere' is not a port"),
        (400, ("CREATE", "listener", {"prot": 1}), "did you mean port?"),
        (400, ("CREATE", "listener", {"port": 77777, "role": "edge"}), "role='standalone' not allowed"),
        (400, ("CREATE", "listener", {"port": 77777, "role": "edge"}), "77777 is out of range"),
        (400, ("CREATE", "listener", {"port": 1, "sslProfile": "none"}), "there is no sslProfile"),
        (400, ("CREATE", "listener", {"port": 1, "identity": "x"}), "identity: cannot be given by CREATE"),
        (400, ("CREATE", "router.config.address", {"prefix": "a", "name": "wide"}), "Name conflicts with"),
        (400, ("CREATE", "router.config.address", {"prefix": "a", "priority": []}), "[] does not fit"),
        (400, ("CREATE", "vhost", {"hostname": "x", "groups": "{"}), "groups"),
        (400, ("CREATE", "vhost", {"hostname": "x", "groups": {"g": {"usrs": "*"}}}), "did you mean users?"),
        (400, ("CREATE", "connector", {"saslPassword": "secret\n"}), "saslPassword: its value does not fit"),
        (400, ("UPDATE", "vhost", {"hostname": "other"}), "hostname: cannot be changed by UPDATE"),
        (400, ("UPDATE", "vhost", {"max-message-size": 1}), "max-message-size: cannot be changed by UPDATE"),
        (400, ("CREATE", "listener", {"port": 1, "http--root-dir": "/etc"}), "there is no such attribute"),
        (404, ("UPDATE", "sslProfile", {"ciphers": "ALL"}), "there is no sslProfile"),
        (404, ("DELETE", "connector", {}), "there is no connector"),
        (501, ("UPDATE", "listener", {"port": 1}), "not implemented"),
        (501, ("CREATE", "router", {}), "not implemented"),
        (501, ("CREATE", "nonsense", {}), "not implemented"),
    ],
)  # fmt: skip
def test_refusals(running: Running, status: int, what: tuple[str, str, dict[str, Any]], text: str) -> None:
    """Nothing changes, and the reason is one that helps; no secret is in it."""
    operation, kind, attributes = what
    before = running.config
    with pytest.raises(ChangeError) as refused:
        running.ask(operation, kind, "vhost/here", **attributes)
    assert refused.value.status == status
    assert text in str(refused.value)
    assert "secret" not in str(refused.value)
    assert running.config == before


def test_every_mistake_is_told(running: Running) -> None:
    """Not the first one only."""
    with pytest.raises(ChangeError, match=r"port: .*; listener cost: .*") as refused:
        running.ask("CREATE", "listener", port="x", cost=0)
    assert refused.value.status == 400


def test_what_is_needed_is_not_deleted(running: Running) -> None:
    """The one that refers to it is named."""
    running.ask("CREATE", "sslProfile", name="s", protocols="TLSv1.3")
    running.ask("CREATE", "connector", name="c", sslProfile="s")
    with pytest.raises(ChangeError, match="needed by connector c: connector sslProfile: there is no"):
        running.ask("DELETE", "sslProfile", "sslProfile/s")


def test_what_is_unwise_is_said(running: Running) -> None:
    """It is made, with a remark."""
    running.ask("CREATE", "authServicePlugin", name="e", host="h")
    assert any("passwords travel to the service in clear text" in text for text in running.remarks)


@pytest.mark.parametrize(
    ("group", "why"),
    [
        ({"sources": "a", "sourcePattern": "b"}, "specifies conflicting 'sources' and 'sourcePattern'"),
        ({"targets": "a", "targetPattern": ""}, "specifies conflicting 'targets' and 'targetPattern'"),
        ({"sourcePattern": "a, b/${user}.c"}, "may contain match pattern '${user}' as a prefix or a suffix"),
    ],
)
def test_a_policy_that_contradicts_itself(running: Running, group: dict[str, str], why: str) -> None:
    """In qdrouterd's words, when it is made and when it is changed."""
    running.ask("CREATE", "vhost", hostname="y", groups={"g": {"users": "ann", "sourcePattern": "${user}.#"}})
    groups = {"g": {"users": "ann", **group}}
    for name, ask in (("x", ("CREATE", "vhost")), ("y", ("UPDATE", "vhost", "vhost/y"))):
        more = {"hostname": "x"} if name == "x" else {}
        with pytest.raises(ChangeError, match=re.escape(why)) as error:
            running.ask(*ask, groups=groups, **more)
        assert error.value.status == 500
        assert str(error.value).startswith(f"PolicyError: Policy '{name}' is invalid: ")


def test_maps_may_be_text(running: Running) -> None:
    """As command lines give them."""
    groups = '{"staff": {"users": "ann", "remoteHosts": "*", "sources": "a, b"}}'
    running.ask("CREATE", "vhost", hostname="x", groups=groups)
    assert running.config.entities[-1].groups["staff"]["sources"] == "a, b"  # type: ignore[attr-defined]  # a vhost


def test_what_was_made_outlives_the_file_read_again(running: Running) -> None:
    """What was changed or deleted of the file's own is as the file says again."""
    running.ask("CREATE", "listener", name="more", port="5673")
    running.ask("CREATE", "router.config.address", prefix="late")
    running.ask("UPDATE", "vhost", "vhost/here", maxConnections=9)
    running.ask("DELETE", "router.config.address", running.identity("address")[0])
    assert running.read_again(FILE) == []
    assert [one.name for one in running.config.listeners] == ["clients", "more"]
    assert [one.prefix for one in running.config.addresses] == ["news", "late"]
    assert running.config.entities[0].max_connections == 3  # type: ignore[attr-defined]  # a vhost


def test_the_file_has_the_last_word(running: Running) -> None:
    """What was made and does not go together with the file any more is removed, with the reason."""
    running.ask("CREATE", "router.config.address", prefix="late", name="mine")
    running.ask("CREATE", "router.config.address", prefix="other")
    running.ask("CREATE", "sslProfile", name="s", protocols="TLSv1.3")
    running.ask("CREATE", "connector", name="c", sslProfile="s")
    (text,) = running.read_again(FILE + "address {\n pattern: late.#\n}\n")
    assert "'late' is the same as in router.conf:" in text
    assert [one.prefix or one.pattern for one in running.config.addresses] == ["news", "late.#", "other"]
    dropped = running.read_again(FILE + "sslProfile {\n name: s\n}\n")
    assert len(dropped) == 1
    assert len(running.config.entities) == 3  # the file's profile, the vhost, and the connector


def test_identities_stay(running: Running) -> None:
    """Of what is numbered, when others go and when the file is read again; a number is used once."""
    running.ask("CREATE", "router.config.address", prefix="a")
    running.ask("CREATE", "router.config.address", prefix="b")
    first, a, b = running.identity("address")
    running.ask("DELETE", "router.config.address", a)
    assert running.identity("address") == [first, b]
    running.ask("CREATE", "router.config.address", prefix="a")
    running.read_again("\n\n" + FILE)
    assert running.identity("address")[:2] == [first, b]
    assert a not in running.identity("address")


def test_entities_of_equal_content_have_identities_of_their_own() -> None:
    """Two listeners on any free port."""
    one = "listener {\n host: 127.0.0.1\n port: 0\n}\n"
    config: Config = parse(one + one, "router.conf")
    names = Identities().of(config.listeners)
    assert names == ["listener/127.0.0.1:0", "listener/127.0.0.1:0/1"]


@pytest.mark.parametrize("section", ["", "router {\n mode: standalone\n}\n"])
def test_a_router_without_a_configured_id_is_changed_again_and_again(section: str) -> None:
    """Management knows it by the id that was made up for it, and so do the second change and its answer."""
    running = Running(f"{section}listener {{\n port: 1\n}}\n")
    name = f"router/{running.config.router.id}"
    for workers in (3, 2, 4):
        assert running.ask("UPDATE", "router", name, workers=workers)
        assert running.config.router.workers == workers
        assert name in named(running.config, running.identities)


def test_the_last_listener_for_clients_is_not_deleted() -> None:
    """Nobody could undo that; a listener for HTTP alone, or for routers, manages nothing."""
    others = "listener {\n name: pages\n port: 8080\n http: yes\n}\nlistener {\n port: 5674\n role: inter-router\n}\n"
    running = Running(FILE.replace("id: r", "id: r\n mode: interior") + others)
    clients, pages, _ = running.identity("listener")
    with pytest.raises(ChangeError, match=r"last listener for clients.*create another.*allowNoListener") as refused:
        running.ask("DELETE", "listener", clients)
    assert refused.value.status == 400
    assert running.ask("DELETE", "listener", pages)
    running.ask("CREATE", "listener", name="other", host="127.0.0.1", port="5673")
    assert running.ask("DELETE", "listener", clients)


def test_the_last_listener_is_deleted_by_a_plain_word() -> None:
    """A router may live on its connectors alone."""
    running = Running(FILE.replace("id: r", "id: r\n allowNoListener: yes"))
    assert running.ask("DELETE", "listener", *running.identity("listener"))
    assert running.identity("listener") == []
