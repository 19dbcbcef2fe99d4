"""Addresses of an edge router for which its uplink has no room: they wait, and nothing else does."""

import logging

import pytest

from bench.contract import C_DETACH, C_LINK_REFUSED
from core.edge.uplink import BEAT_NS
from core.links.terminus import NO_ROOM
from shm.contract.payloads import Detach, LinkRefused, OpenLink
from tests.support.beds.edge_router import CLIENT, UPLINKS, EdgeRouter, client


@pytest.fixture
def edge() -> EdgeRouter:
    """Its client is there before its uplink."""
    edge = EdgeRouter()
    edge.do([client(number, True, f"a{number}") for number in range(3)])
    edge.do([edge.open(UPLINKS)])
    return edge


def asked(edge: EdgeRouter) -> list[OpenLink]:
    """Return the links that have been requested for a client."""
    found, edge.told = [one for one in edge.told if isinstance(one, OpenLink) and one.client], []
    return found


def beat(edge: EdgeRouter) -> None:
    for _ in range(3):  # the addresses are next in the first turn, and then go in portions
        edge.turn("beat", BEAT_NS / 1e9)


def refuse(edge: EdgeRouter, *links: OpenLink) -> None:
    edge.do([(C_LINK_REFUSED, LinkRefused(one.request, NO_ROOM)) for one in links])


def test_an_address_without_room_is_tried_again_for_its_client(
    edge: EdgeRouter, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        beat(edge)
        links = asked(edge)
        assert {(one.source, one.client) for one in links} == {(f"a{number}", CLIENT) for number in range(3)}
        refuse(edge, *links)
    (line,) = [line for line in caplog.messages if "gets no link for some addresses" in line]
    assert "is full (now from" in line
    assert asked(edge) == [], "not before a while"
    beat(edge)
    again = asked(edge)
    assert {one.source for one in again} == {"a0", "a1", "a2"}
    refuse(edge, *again)
    edge.do([(C_DETACH, Detach(1, 1))])
    beat(edge)
    assert {one.source for one in asked(edge)} == {"a0", "a2"}
