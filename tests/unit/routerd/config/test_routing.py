"""Addresses, link routes and auto links of a configuration: what stands twice, and whom they name."""

import pytest

from routerd.config import parse
from routerd.translate.tables import tables
from tests.support.values.mistakes import told


@pytest.mark.parametrize("entity", ["linkRoute {\n prefix: a", "autoLink {\n address: a"])
def test_a_connection_that_nobody_has_is_a_warning(entity: str) -> None:
    """Its links would find nobody, without a word at run time; a listener may have the name, too."""
    broker, more = "connector {\n name: broker\n host: h\n port: 1\n}\n", "listener {\n port: 2\n}\n"
    (line,) = told(f"{more}{broker}{entity}\n direction: in\n connection: brokr\n}}\n")
    assert "there is no connector or listener named 'brokr'; did you mean 'broker'?" in line
    assert "warning" in line
    for there in (broker, "listener {\n name: broker\n port: 1\n}\n"):
        assert told(f"{more}{there}{entity}\n direction: in\n connection: broker\n}}\n") == []


def test_an_address_that_stands_twice_is_a_mistake_only_if_the_two_differ() -> None:
    one = "address {\n prefix: a\n distribution: closest\n}\n"
    assert "is the same as in line 1" in str(parse(one + one, "f.conf").warnings)
    assert "is the same as in line 1" in told(one + one.replace("closest", "multicast"))[0]


def test_a_link_route_may_have_several_brokers() -> None:
    """But not change the address in several ways; the same one twice is a warning, whatever it is called."""
    peers = "".join(f"listener {{\n name: {name}\n port: 0\n}}\n" for name in ("here", "there"))
    one = "linkRoute {\n prefix: a\n direction: in\n connection: here\n}\n"
    for another in (one.replace("here", "there"), one.replace("connection: here", "containerId: here")):
        assert "is the same as in line 1" not in str(parse(one + another, "f.conf").warnings)
    assert "is the same as in line 1" in str(parse(one + one.replace("prefix", "name: n\n prefix"), "f.conf").warnings)
    other = one.replace("here", "there\n addExternalPrefix: z")
    assert "is the same as in line 1" in told(one + other + peers)[0]


@pytest.mark.parametrize("spelled", ["/a", "a/", "amqp:/a", "amqp://host/a"])
def test_two_exchanges_or_tables_have_one_address_however_it_is_spelled(spelled: str) -> None:
    """The core has one place for it: the first one's messages went by the second one's bindings or table."""
    for kind in ("router.config.exchange", "routeTable"):
        one = f"{kind} {{\n name: n\n address: a\n}}\n"
        other = one.replace("name: n", "name: m").replace("address: a", f"address: {spelled}")
        assert any("is the address of the" in line for line in told(one + other))


def test_a_table_is_known_by_its_plain_address() -> None:
    """The addresses of its endpoints begin with it; a spelling that is none of theirs led to nobody."""
    (setup,) = tables(parse("routeTable {\n name: t\n address: amqp:/a\n}\n", "f.conf"), {})
    assert setup.address == "a"


@pytest.mark.parametrize("address", ["_local/a", "_topo/0/R/a", "/_edge/R/a", "_$temp.a"])
def test_a_table_has_no_address_of_routers(address: str) -> None:
    """Each router has those for itself, and endpoints there would have no place in the table."""
    lines = told(f"routeTable {{\n name: t\n address: {address}\n}}\n")
    assert any("is an address of routers" in line for line in lines)
