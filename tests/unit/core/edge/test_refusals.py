"""What an edge router says of links that its interior router refuses."""

import pytest

from bench.contract import C_LINK_REFUSED
from core.edge.place import LOOKUP
from shm.contract.complaints import LINE_BURST
from shm.contract.payloads import Error, LinkRefused, OpenLink
from tests.support.beds.edge_router import UPLINKS, EdgeRouter, client

DENIED = Error("amqp:unauthorized-access", "not allowed")


@pytest.fixture
def edge() -> EdgeRouter:
    """It asks nobody whether links are routed, and has been refused its link to `$management`."""
    edge = EdgeRouter()
    edge.do([edge.open(UPLINKS)])
    refuse(edge, "$management")
    refuse(edge, LOOKUP)
    edge.do(edge.answer())
    return edge


def refuse(edge: EdgeRouter, address: str) -> None:
    """The interior router refuses a link of this address."""
    asked = next(one for one in edge.told if isinstance(one, OpenLink) and address in (one.source, one.target))
    edge.told.remove(asked)
    edge.do([(C_LINK_REFUSED, LinkRefused(asked.request, DENIED))])


def test_each_refused_address_is_told(edge: EdgeRouter, caplog: pytest.LogCaptureFixture) -> None:
    """The documented refusal of `$management` hides none; without its line nobody at the edge learns the reason."""
    edge.do([client(1, False, "secrets"), client(2, True, "news")])
    refuse(edge, "secrets")
    refuse(edge, "news")
    assert [line.getMessage() for line in caplog.records] == [
        "router interior at h:2 refused a link to 'secrets': amqp:unauthorized-access: not allowed",
        "router interior at h:2 refused a link from 'news': amqp:unauthorized-access: not allowed",
    ]


def test_a_flood_of_refusals_is_few_lines(edge: EdgeRouter, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    for number in range(2 * LINE_BURST):
        edge.do([client(number, False, f"a.{number}")])
        refuse(edge, f"a.{number}")
    assert 0 < len(caplog.records) <= LINE_BURST
