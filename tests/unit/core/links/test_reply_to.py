"""Where the management agent answers: only where the requester itself may send or receive, in its own space."""

import pytest

from bench.contract import C_ATTACH, C_CONNECTION_CLOSED, C_CONNECTION_OPENED, C_DETACH
from core.addresses.addresses import Identity
from core.links import administration
from core.links.administration import Administration
from core.links.admission import Admissions
from shm.contract.control import WorkerGone
from shm.contract.payloads import Attach, ConnectionClosed, ConnectionOpened, Detach
from shm.contract.security import Admission
from tests.support.beds.control import Bed

ME = Identity("me")
MADE = "_topo/0/far/temp.abcDEF123+_xyzA"


def bound(tenant: str, **lists: list[str]) -> tuple[Admissions, ConnectionOpened]:
    """A connection under vhost policy."""
    limits = dict.fromkeys(("max_connections", "max_connections_per_user", "max_connections_per_host"), 100)
    flags = dict.fromkeys((name for name in Admission.__struct_fields__ if name.startswith("allow_")), False)
    names: dict[str, object] = {"vhost": "v", "group": "g", "user": "u", "host": "h", "max_senders": 9}
    empty: dict[str, list[str]] = {"sources": [], "targets": [], "source_patterns": [], "target_patterns": []}
    admission = Admission(**{**limits, **flags, **names, "max_receivers": 9, **empty, **lists})  # type: ignore[arg-type]  # from keyword to field
    admissions, opened = Admissions(100, ME), ConnectionOpened(0, 1, "c", "h:1", admission=admission, tenant=tenant)
    assert admissions.enter((0, 0), opened, 0) is None
    return admissions, opened


def reply_to(text: str, tenant: str = "", **lists: list[str]) -> str | None:
    admissions, opened = bound(tenant, **lists)
    return admissions.reply_to(admissions.guarded((0, 0)), opened.tenant, text)


@pytest.mark.parametrize("text", ["own", "/own", "amqp:/own", MADE, f"amqp:/{MADE}", "_$temp.abcDEF123+_xyzA"])
def test_answers_go_where_the_client_receives(text: str) -> None:
    assert reply_to(text, sources=["own"]) == text


def test_answers_go_where_the_client_sends() -> None:
    assert reply_to("orders.new", target_patterns=["orders.#"]) == "orders.new"


@pytest.mark.parametrize(
    "text", ["orders", "", "_local/x", "_topo/0/far/temp.short", "_topo/0/far/$management", "own.x"]
)
def test_answers_go_nowhere_else(text: str) -> None:
    """The agent would speak to others in the name of a client that may not."""
    assert reply_to(text, sources=["own"], targets=["$management"]) is None


@pytest.mark.parametrize("policed", [True, False])
def test_a_tenants_answers_stay_in_its_space(policed: bool) -> None:
    """A name there is the tenant's own, as in its links; what lies in nobody's space is not for it, unless listed."""
    admissions, opened = bound("red", sources=["*"], targets=["*", "_local/meet"])
    guarded = admissions.guarded((0, 0)) if policed else None
    assert admissions.reply_to(guarded, opened.tenant, "blue/orders") == "red/blue/orders"
    assert admissions.reply_to(guarded, opened.tenant, MADE) == MADE
    assert admissions.reply_to(guarded, opened.tenant, "_local/orders") is None
    assert admissions.reply_to(guarded, opened.tenant, "_local/meet") == ("_local/meet" if policed else None)


@pytest.fixture
def bed() -> Bed:
    """A client with a link to the agent, one to an address, and one to any."""
    bed = Bed()
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "c", "h:1", number=5))
    for link, address in enumerate(("$management", "a", "")):
        bed.say(C_ATTACH, Attach(link, 1, 0, f"l{link}", False, address))
    bed.step()
    return bed


def departed(bed: Bed, *links: int) -> list[bool]:
    plane = bed.core.plane(Administration)
    return [plane.departed(0, link, 1) is not None for link in links]


def test_who_has_closed_its_link_is_known(bed: Bed) -> None:
    """As long as it is connected, and by a link on which a request may have come."""
    assert departed(bed, 0, 1, 2) == [False, False, False]
    for link in range(3):
        bed.say(C_DETACH, Detach(link, 1))
    bed.step()
    assert departed(bed, 0, 1, 2) == [True, False, True]
    bed.say(C_CONNECTION_CLOSED, ConnectionClosed(0, 1))
    bed.say(C_CONNECTION_OPENED, ConnectionOpened(0, 2, "d", "h:2", number=6))
    bed.step()
    assert departed(bed, 0, 2) == [False, False]


def test_a_request_of_a_dead_workers_successor_goes_to_the_agent_that_it_is_for(bed: Bed) -> None:
    """Its link has the name of one that is gone: the worker gives the same index and generation again."""
    bed.say(C_DETACH, Detach(0, 1))
    bed.step()
    bed.core.worker_changed(WorkerGone(0, 1), 9)
    opened = ConnectionOpened(0, 1, "d", "h:2", number=6, management="read")
    bed.core.connections.opened(0, opened)
    bed.core.attaches.attach(0, Attach(0, 1, 0, "l0", False, far := "_topo/0/far/$management"), opened)
    link = bed.core.links.find(0, 0, 1)
    assert link is not None
    assert bed.core.plane(Administration).led(link, b"", opened) == far


def test_those_who_are_known_are_bounded(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last ones are."""
    monkeypatch.setattr(administration, "MOST_DEPARTED", 2)
    for generation in range(2, 6):
        bed.say(C_DETACH, Detach(0, generation - 1))
        bed.say(C_ATTACH, Attach(0, generation, 0, "l0", False, "$management"))
    bed.step()
    plane = bed.core.plane(Administration)
    assert [plane.departed(0, 0, generation) is not None for generation in range(1, 6)] == [
        False,
        False,
        True,
        True,
        False,
    ]
