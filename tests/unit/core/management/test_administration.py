"""Who may manage: the right of a connection, what agents are called, and where no message may lead."""

import pytest

from core.addresses.agent_address import is_agent, is_foreign, is_own
from core.link_routes.routes import Routes, route_key
from core.links.rights import AddressRights
from core.links.termini import address_of
from core.management.request import ManagementError, Requester
from routerd.config import ConfigError, parse
from shm.contract.administering import granted
from shm.contract.payloads import Attach


@pytest.mark.parametrize(
    ("configured", "known", "host", "right"),
    [
        (["", ""], False, "10.0.0.1", "read"),
        (["", ""], False, "-", "read"),
        (["", ""], False, "router.example", "read"),
        (["", ""], False, "fe80::1%eth0", "read"),
        (["", ""], False, "::ffff:10.0.0.1", "read"),
        (["", ""], True, "10.0.0.1", "all"),
        (["", ""], False, "127.0.0.9", "all"),
        (["", ""], False, "::1", "all"),
        (["", ""], False, "::ffff:127.0.0.1", "all"),
        (["", ""], False, "localhost", "all"),
        (["all", ""], False, "10.0.0.1", "all"),
        (["read", "all"], True, "127.0.0.1", "read"),
        (["all", "none"], True, "127.0.0.1", "none"),
        (["", "read"], True, "127.0.0.1", "read"),
    ],
)
def test_a_stranger_changes_nothing_unless_somebody_says_so(
    configured: list[str], known: bool, host: str, right: str
) -> None:
    """The least of what is configured; else all for who is known or here, and questions for others."""
    assert granted(configured, known=known, host=host) == right


@pytest.mark.parametrize(
    ("address", "agent", "foreign"),
    [
        ("$management", True, False),
        ("amqp:/$management", True, False),
        ("amqp://h:1/_local/$management", True, False),
        ("_local/agent/", True, False),
        ("_topo/0/me/$management", True, False),
        ("_topo/all/me/agent", True, False),
        ("_edge/me/$management", True, False),
        ("_topo/0/other/$management", True, True),
        ("_topo/0/all/$management", True, True),
        ("_topo/1/me/$management", True, True),
        ("//_topo/0/other/$management.", True, True),
        ("_edge/other/agent", True, True),
        ("_topo/0/other/$_management_internal", True, True),
        ("_local/$_management_internal", True, False),
        ("agent", False, None),
        ("tenant/$management", False, None),
        ("_topo/0/other/qdrouter", False, None),
        ("$management/x", False, None),
    ],
)
def test_agents_are_known_by_every_spelling(address: str, agent: bool, foreign: bool | None) -> None:
    """Those of this router, and those of others."""
    assert is_agent(address) is agent
    if agent:
        assert is_foreign(address, "0", "me") is foreign


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE", "PUSH", "PROFILE", "CALLME", "QUERY2", ""])
def test_what_no_list_of_questions_names_is_a_change(operation: str) -> None:
    with pytest.raises(ManagementError, match="may only read") as refused:
        Requester(management="read").permit(operation)
    assert refused.value.status == 403


def test_an_edge_router_makes_link_routes_only_by_the_right_all() -> None:
    """It takes addresses from others: to say that one is an edge router is not enough."""
    edge = Requester(management="read", edge=True, container="E", peer="10.0.0.9:1")
    for operation in ("CREATE", "DELETE"):
        with pytest.raises(ManagementError, match="may only read"):
            edge.permit(operation)
        Requester(management="all", edge=True).permit(operation)
    with pytest.raises(ManagementError, match="not allowed to this connection: "):
        Requester(management="none", edge=True).permit("QUERY")
    assert edge.who == "edge router 'E' at 10.0.0.9:1"


OWN = [
    "$management", "/$management", "//$management.", "amqp:/$management", "amqp://h:1/$management",
    "_local/$management", "_local/agent", "amqp:_topo/0/me/$management", "_topo/0/other/temp.x", "_edge/e/x",
    "_local.qdhello", "_$temp.abc", "_$qd.addr_lookup", "_local/_$qd.edge_heartbeat", "$_management_internal",
    "$coordinatorx",
]  # fmt: skip


@pytest.mark.parametrize("pattern", ["#", "*.#", "$management", "_local.#", "_topo.*.*.$management", "*"])
def test_no_link_route_takes_a_routers_own_address(pattern: str) -> None:
    """Whoever has asked for it, here or at another router, and however the address is spelt."""
    routes = Routes()
    for outgoing in (True, False):
        routes.offer((0, 1), None, pattern, outgoing, "")
        routes.map(route_key(outgoing, None, pattern), 3)
        assert [address for address in OWN if routes.find(address, outgoing) is not None] == []
    if pattern == "#":
        kept = ["$coordinator", "a.$management", "_topology", "a", "_locale/x"]
        assert [address for address in kept if routes.find(address, False) is None] == []


def test_a_tenants_name_hides_no_routers_own_address() -> None:
    """What lies in no tenant's space is looked up as it is; what does is the tenant's own."""
    found = [address_of(Attach(0, 1, 0, "l", False, text), "t") for text in ("_local/$management", "$management")]
    assert found == ["_local/$management", "t/$management"]
    assert [is_own(text) for text in found] == [True, False]


@pytest.mark.parametrize("pattern", ["$management", "_local.#", "amqp:/_topo/*/*/x", "_edge.#", "_$temp.*"])
@pytest.mark.parametrize("attribute", ["prefix", "pattern"])
def test_a_link_route_of_a_routers_own_addresses_is_a_mistake(pattern: str, attribute: str) -> None:
    """It would never have a link; a coordinator's may be routed."""
    text = "listener {{\nport: 0\n}}\nlinkRoute {{\n{}: {}\ndirection: in\ncontainerId: c\n}}\n"
    with pytest.raises(ConfigError, match="router's own addresses, which no link route takes"):
        parse(text.format(attribute, pattern), "f.conf")
    parse(text.format(attribute, "$coordinator"), "f.conf")


@pytest.mark.parametrize(
    ("names", "patterns", "covered", "beyond"),
    [
        (["*"], [], ["#", "a.b", "*.x"], []),
        (["a"], [], ["a"], ["a.#", "a.b", "#", "*"]),
        (["a*"], [], ["a.#", "a/b", "ab.*", "a"], ["#", "*", "*.a", "b"]),
        (["a.b", "a.b*", "a.*", "#"], [], [], ["a.b", "a.b.#", "a.#", "#", "*"]),
        ([], ["a.#"], ["a", "a.#", "a.*", "a/b.#"], ["#", "*", "*.a", "b.#"]),
        ([], ["a.*"], ["a.b", "a.*"], ["a.#", "a", "a.b.c", "a.*.*"]),
        ([], ["*.#"], ["a", "a.#", "*"], ["#"]),
        ([], ["#"], ["#", "a.*.#"], []),
        ([], [], [], ["a", "#"]),
    ],
)
def test_a_user_groups_lists_cover_the_pattern_of_a_link_route(
    names: list[str], patterns: list[str], covered: list[str], beyond: list[str]
) -> None:
    """All its addresses, by one entry; else the connection would take what its links may not use."""
    rights = AddressRights(names, patterns)
    assert [one for one in covered if not rights.covers(one)] == []
    assert [one for one in beyond if rights.covers(one)] == []


def test_a_refusal_names_what_would_have_been_enough() -> None:
    """Of the same machine is not enough: it is the address that counts."""
    with pytest.raises(ManagementError) as refused:
        Requester(management="read").permit("CREATE")
    assert refused.value.text.endswith("or it is neither authenticated nor from a loopback address (127.0.0.1, ::1)")
    assert "machine" not in refused.value.text


def test_a_refusal_to_a_neighbour_names_the_router_that_refuses_and_whose_connection_is_meant() -> None:
    """Whoever asked stands at another router, and reads only this."""
    neighbour = Requester(management="read", neighbour=True, router="B", container="A\n" * 50, peer="10.0.0.1:4711")
    with pytest.raises(ManagementError) as refused:
        neighbour.permit("DELETE")
    assert refused.value.text.startswith(
        "router B refuses: DELETE is not allowed to its connection with the neighbouring router 'A\\nA\\n"
    )
    assert "(10.0.0.1:4711), by which the request came, which may only read: " in refused.value.text
    assert len(refused.value.text) < 500


@pytest.mark.parametrize(
    "text",
    [
        "exchange {\nname: e\naddress: a\nalternateAddress: _topo/0/B/$management\n}\n",
        "exchange {\nname: e\naddress: a\n}\nbinding {\nexchangeName: e\nnextHopAddress: $management\n}\n",
        "autoLink {\naddress: _local/$management\ndirection: in\ncontainerId: c\n}\n",
    ],
)
def test_what_the_router_moves_by_itself_leads_to_no_agent(text: str) -> None:
    """Nobody could tell whose right counts."""
    with pytest.raises(ConfigError, match="is a management address; give another"):
        parse(f"listener {{\nport: 0\n}}\n{text}", "f.conf")
