"""Who may manage: the right of a connection, what agents are called, and where no message may lead."""

import pytest

from core.agent_address import is_agent, is_foreign
from core.management.request import ManagementError, Requester
from routerd.config import ConfigError, parse
from shm.administering import granted


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


@pytest.mark.parametrize(
    "operation", ["CREATE", "UPDATE", "DELETE", "PUSH", "PROFILE", "CALLME", "QUERY2", ""]
)
def test_what_no_list_of_questions_names_is_a_change(operation: str) -> None:
    with pytest.raises(ManagementError, match="may only read") as refused:
        Requester(management="read").permit(operation, "listener")
    assert refused.value.status == 403


def test_an_edge_router_makes_link_routes_for_its_brokers_and_nothing_else() -> None:
    """That is the protocol between the two, with a right of its own."""
    edge = Requester(management="read", edge=True)
    edge.permit("CREATE", "router.connection.linkRoute")
    with pytest.raises(ManagementError, match="may only read"):
        edge.permit("CREATE", "listener")
    with pytest.raises(ManagementError, match="not allowed to this connection: "):
        Requester(management="none").permit("QUERY", None)


def test_a_refusal_names_what_would_have_been_enough() -> None:
    """Of the same machine is not enough: it is the address that counts."""
    with pytest.raises(ManagementError) as refused:
        Requester(management="read").permit("CREATE", "listener")
    assert refused.value.text.endswith(
        "or it is neither authenticated nor from a loopback address (127.0.0.1, ::1)"
    )
    assert "machine" not in refused.value.text


def test_a_refusal_to_a_neighbour_names_the_router_that_refuses_and_whose_connection_is_meant() -> None:
    """Whoever asked stands at another router, and reads only this."""
    neighbour = Requester(
        management="read", neighbour=True, router="B", container="A\n" * 50, peer="10.0.0.1:4711"
    )
    with pytest.raises(ManagementError) as refused:
        neighbour.permit("DELETE", "listener")
    assert refused.value.text.startswith(
        "router B refuses: DELETE is not allowed to its connection with the neighbouring router 'A\\nA\\n"
    )
    assert "(10.0.0.1:4711), by which the request came and which may only read: " in refused.value.text
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
