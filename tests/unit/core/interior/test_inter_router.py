"""Connections between routers that are never set up: both ends give them up, and say what is wrong."""

import logging

import msgspec
import pytest

from bench import contract as n
from bench.contract import C_ATTACH, C_CLOSE, C_CONNECTION_OPENED, C_LINK_REFUSED, C_OPEN_LINK
from core.interior.inter_router import FORBIDDEN, SET_UP_NS, UNHEARD_NS
from core.interior.network_adapter import NetworkAdapter
from shm.contract.payloads import Attach, Close, ConnectionOpened, LinkRefused, OpenLink
from tests.support.beds.control import Bed


class Nobody:
    """A router protocol with nothing to say."""

    last_change = 0
    heard = False

    def tick(self, now: float) -> None:
        """Nothing is done."""

    def due(self, now: float) -> float | None:
        """Nothing is due."""

    def neighbour_up(self, neighbour: int, cost: int, dialect: str, told: int) -> None:
        """Nobody is greeted."""

    def hears(self, neighbour: int) -> bool:
        """Whether they hear each other."""
        return self.heard

    def neighbour_lost(self, neighbour: int) -> None:
        """Nobody was up."""


@pytest.fixture
def bed() -> Bed:
    """A core of an interior router."""
    made = Bed(mode="interior")
    made.core.plane(NetworkAdapter).start(lambda _: Nobody())  # type: ignore[arg-type,return-value]  this is all that is called
    return made


def said(bed: Bed, kind: int) -> list[bytes]:
    records = [r for r in bed.step() if r["type"] == n.W_CONTROL and r["state"] == kind]
    return [bed.core_arena.read(record["block"]) for record in records]


def test_a_peer_without_control_link_is_closed_and_told_of_its_role(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """A connector that lacks ``role: inter-router`` ends in a warning at both ends, not in silence."""
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "B", "h:1", role="inter-router"))
    bed.step()
    bed.core.tick(bed.now + SET_UP_NS)
    assert said(bed, C_CLOSE) == []
    bed.core.tick(bed.now + 2 * SET_UP_NS)
    (content,) = said(bed, C_CLOSE)
    close = msgspec.msgpack.decode(content, type=Close)
    assert close.error is not None
    assert "is its connector's role inter-router?" in close.error.description
    assert "router B opened no control link; its connection is closed; is its connector's role" in caplog.text


def test_another_connection_of_a_neighbour_may_be_without_control_link(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    """As skupper-router's data connections are, which it dials beside the one that is up."""
    for connection in (0, 1):
        opened = ConnectionOpened(connection, 1, "SK", f"h:{connection}", role="inter-router")
        bed.say(C_CONNECTION_OPENED, opened)
    for link, outgoing in ((0, False), (1, True)):
        bed.say(C_ATTACH, Attach(link, 1, 0, f"control-{outgoing}", outgoing, None, capabilities=["qd.router"]))
    bed.step()
    bed.core.tick(bed.now + 2 * SET_UP_NS)
    assert said(bed, C_CLOSE) == []
    assert "opened no control link" not in caplog.text


def test_a_listener_that_is_not_for_routers_is_named_as_the_reason(bed: Bed, caplog: pytest.LogCaptureFixture) -> None:
    """The reverse mistake: the connector is for routers, and the listener that it reaches is not."""
    caplog.set_level(logging.WARNING, "ROUTER_CORE")
    opened = ConnectionOpened(0, 1, "A", "h:1", role="inter-router", connector="to-A")
    bed.say(C_CONNECTION_OPENED, opened)
    request = msgspec.msgpack.decode(said(bed, C_OPEN_LINK)[0], type=OpenLink).request
    bed.say(C_LINK_REFUSED, LinkRefused(request, FORBIDDEN))
    bed.step()
    assert "is the role of its listener inter-router?" in caplog.text


@pytest.mark.parametrize("heard", [False, True])
@pytest.mark.parametrize(
    ("connector", "listener", "over"),
    [("to-B", "", "connector to-B"), ("", "routers", "listener routers"), ("", "", "listener (no name)")],
)
def test_a_router_that_stays_unheard_is_complained_of(
    bed: Bed, caplog: pytest.LogCaptureFixture, connector: str, listener: str, over: str, heard: bool
) -> None:
    """Its links are there, and no greeting counts: the complaint has the connector's name and what may be wrong."""
    bed.core.plane(NetworkAdapter).network.heard = heard  # type: ignore[attr-defined]  it is a Nobody
    names = {"connector": connector, "listener": listener}
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "B", "h:1", role="inter-router", annotations=1, **names))
    for link, outgoing in ((0, False), (1, True)):
        bed.say(C_ATTACH, Attach(link, 1, 0, f"control-{outgoing}", outgoing, None, capabilities=["qd.router"]))
    bed.step()
    bed.core.tick(bed.now + UNHEARD_NS)
    assert "do not hear" not in caplog.text
    bed.core.tick(bed.now + 2 * UNHEARD_NS)
    expected = f"router B is connected over {over}, and the two routers do not hear each other"
    assert (expected in caplog.text) == (not heard)
    assert ("(here: map)" in caplog.text) == (not heard)
