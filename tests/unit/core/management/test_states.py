"""What management tells of the router's age, and of links that have no connection."""

import time

import pytest

from bench.contract import C_CONNECTION_OPENED
from core.links.connectors import Connectors
from core.management.configured import WAITING
from core.management.view import SECOND
from shm.contract.control import SetRouting
from shm.contract.management import PREFIX
from shm.contract.payloads import ConnectionOpened, ConnectorState
from shm.contract.routing import AutoLinkSetup, Routing
from shm.memory import segment
from tests.support.beds.agent import Bed


def test_the_routers_age_is_not_its_cores(segments: segment.Segments) -> None:
    """The counters outlive the core, and so does the time since which they count."""
    bed = Bed(segments, started=time.monotonic_ns() - 7_380 * SECOND, generation=3)
    names = ("uptimeSeconds", "coreUptimeSeconds", "coreRestarts")
    (row,) = bed.query(PREFIX + "router", *names)
    assert 7_380 <= row["uptimeSeconds"] < 8_000
    assert row["coreUptimeSeconds"] < 600
    assert row["coreRestarts"] == 2


@pytest.mark.parametrize(
    ("where", "state", "why"),
    [
        ({"connection": "b"}, ConnectorState("b", "CONNECTING", "[C7] Connection to b:1 failed: refused"),
         "connector b: Connection to b:1 failed: refused"),
        ({"connection": "b"}, ConnectorState("b", "SUCCESS", "[C7] Connection opened"), "connector b: no connection"),
        ({"connection": "b"}, None, "connector b: no connection with the role route-container yet"),
        ({"connection": "there"}, None, "nobody is connected to the listener there"),
        ({"connection": "here"}, None, "the listener here has the role normal; give it the role route-container"),
        ({"connection": "none"}, None, "there is no connector or listener with the name none"),
        ({"containerId": "q"}, None, "no connection with the role route-container has the container id q"),
    ],
)  # fmt: skip
def test_what_has_no_connection_says_why(
    bed: Bed, where: dict[str, str], state: ConnectorState | None, why: str
) -> None:
    """Auto links and link routes, also while their connector only tries to connect."""
    connector = {"host": "b", "port": "1", "role": "route-container"}
    assert bed.crud("CREATE", connector, type="connector", name="b")[0] == 201
    listener = {"host": "127.0.0.1", "port": "1", "role": "route-container"}
    assert bed.crud("CREATE", listener, type="listener", name="there")[0] == 201
    link = {"address": "q", "direction": "in", **where}
    status, made = bed.crud("CREATE", link, type="router.config.autoLink", name="a")
    assert status == 201, made
    assert bed.crud("CREATE", {"prefix": "q", "direction": "in", **where}, type="router.config.linkRoute")[0] == 201
    setup = AutoLinkSetup(made["identity"], "q", True, 1, container=where.get("containerId", ""))
    bed.core.configure(SetRouting(Routing([setup])))
    if state is not None:
        assert bed.core.plane(Connectors).heard(0, state)
    for kind in ("autoLink", "linkRoute"):
        (row,) = bed.query(f"router.config.{kind}", "operStatus", "lastError")
        assert (row["operStatus"], row["lastError"].startswith(why)) == ("inactive", True), row


def test_an_auto_link_that_waits_for_its_turn_says_so(bed: Bed) -> None:
    """Its connection has outlived the core, and its link may have, too."""
    connector = {"host": "b", "port": "1", "role": "route-container"}
    assert bed.crud("CREATE", connector, type="connector", name="b")[0] == 201
    link = {"address": "q", "direction": "in", "connection": "b"}
    _, made = bed.crud("CREATE", link, type="router.config.autoLink", name="a")
    bed.core.configure(SetRouting(Routing([AutoLinkSetup(made["identity"], "q", True, 1, connection="b")])))
    fields = {"role": "route-container", "connector": "b", "restored": True}
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(7, 1, "broker", "h:1", **fields))
    bed.core.step(2)
    (row,) = bed.query("router.config.autoLink", "operStatus", "lastError")
    assert (row["operStatus"], row["lastError"]) == ("inactive", WAITING)
