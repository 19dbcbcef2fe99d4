"""What a changed configuration means: pure comparison, from the text of two files."""

import pytest

from routerd.config import Config, parse
from routerd.reload.difference import difference

FILE = """
router {{
    id: r
    workers: 2
    {router}
}}
listener {{
    name: clients
    host: 127.0.0.1
    port: 5672
    {listener}
}}
{more}
"""


def config(router: str = "", listener: str = "", more: str = "") -> Config:
    return parse(FILE.format(router=router, listener=listener, more=more), "router.conf", "r")


def lines(old: Config, new: Config) -> tuple[list[str], list[str]]:
    found = difference(old, new)
    return found.applied, found.restart


def test_the_same_is_no_change() -> None:
    """Not even when everything has moved to other lines."""
    moved = "\n\n" + FILE.format(router="", listener="", more="")
    assert lines(config(), parse(moved, "router.conf")) == ([], [])


def test_a_router_without_an_id_keeps_the_one_it_has() -> None:
    """Its file says nothing about that, so nothing has changed."""
    text = "router {\n workers: 1\n}\nlistener {\n port: 1\n}\n"
    old = parse(text, "router.conf")
    assert lines(old, parse(text, "router.conf", old.router.id)) == ([], [])


def test_listeners_come_and_go() -> None:
    more = "listener {\n host: ::1\n port: 5673\n}"
    assert lines(config(), config(more=more)) == (["listener [::1]:5673 added"], [])
    assert lines(config(more=more), config()) == (["listener [::1]:5673 removed; its connections stay"], [])


def test_a_listener_that_moves_is_another_one() -> None:
    """Its name does not make it the same: clients connect to an address."""
    text = FILE.format(router="", listener="", more="").replace("5672", "5673")
    assert lines(config(), parse(text, "router.conf")) == (
        ["listener clients 127.0.0.1:5672 removed; its connections stay", "listener clients 127.0.0.1:5673 added"],
        [],
    )


def test_a_listener_s_attributes_change_in_place() -> None:
    """Each with what it was and what it is now."""
    new = config(listener="linkCapacity: 10\n idleTimeoutSeconds: 60")
    assert lines(config(), new) == (
        [
            "listener clients 127.0.0.1:5672 changed: idleTimeoutSeconds from 16 to 60, "
            "linkCapacity from nothing to 10; for new connections and links"
        ],
        [],
    )


def test_the_router_s_link_capacity_reaches_its_listeners() -> None:
    """Listeners that have none of their own follow."""
    applied, restart = lines(config(), config(router="linkCapacity: 99"))
    assert applied == [
        "listener clients 127.0.0.1:5672 changed: linkCapacity from nothing to 99; for new connections and links",
        "router changed: linkCapacity from nothing to 99",
    ]
    assert restart == []


def test_listeners_on_any_port_are_told_apart_by_name() -> None:
    """Two of them are two, and the one that stays keeps its port."""
    one, two = "listener {\n name: a\n port: 0\n}\n", "listener {\n name: b\n port: 0\n}\n"
    applied, _ = lines(config(more=one + two), config(more=two))
    assert applied == ["listener a *:0 removed; its connections stay"]


def test_addresses_and_logs() -> None:
    """Added, changed and removed."""
    old = "address {\n prefix: a\n}\naddress {\n prefix: b\n}\nlog {\n module: SERVER\n}\n"
    new = (
        "address {\n prefix: b\n distribution: multicast\n}\naddress {\n pattern: c.*\n}\n"
        "log {\n module: SERVER\n enable: debug+\n}\n"
    )
    assert lines(config(more=old), config(more=new)) == (
        [
            "address prefix a removed",
            "address prefix b changed: distribution from balanced to multicast",
            "address pattern c.* added",
            "log SERVER changed: enable from nothing to debug+",
        ],
        [],
    )


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("busyPoll: 3", "router changed: busyPoll from 0 to 3"),
        ("arenaSize: 8", "router changed: arenaSize from 96 to 8"),
        ("id: other", "router changed: id from r to other"),
    ],
)
def test_what_is_laid_down_at_the_start_needs_a_restart(given: str, line: str) -> None:
    """It is named, each time anew, and the configuration that counts keeps the old value."""
    text = FILE.format(router=given, listener="", more="")
    text = text.replace("id: r\n", "") if "id:" in given else text
    new = parse(text, "router.conf")
    assert lines(config(), new) == ([], [line])
    assert difference(config(), new).effective.router == config().router


def test_what_takes_effect_is_what_the_next_difference_starts_from() -> None:
    """After a reload only what still needs a restart is left."""
    old, new = config(), config(router="defaultDistribution: multicast\n arenaSize: 8", listener="cost: 2")
    effective = difference(old, new).effective
    assert effective.router.default_distribution == "multicast"
    assert lines(effective, new) == ([], ["router changed: arenaSize from 96 to 8"])
    assert effective.listeners == new.listeners


def test_no_value_of_other_entities_is_told() -> None:
    """They may be passwords."""
    profile = "sslProfile {{\n name: s\n password: {}\n}}"
    applied, restart = lines(config(more=profile.format("old")), config(more=profile.format("new")))
    assert applied == ["sslProfile s changed: password"]
    assert restart == []
