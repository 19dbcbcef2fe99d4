"""Who may reach an address, and where a worker may send to."""

import pytest

from tests.model.source_routes.access import Access, check, of_worker
from tests.model.source_routes.refusal import Reason, RefusedError
from tests.support.values.source_routing import a

F = a("F")

CLIENT = frozenset({"user:alice", "link:px", "listener:l"})
UPLINK = frozenset({"uplink:cloud"})


@pytest.mark.parametrize(
    ("listed", "source", "may"),
    [
        (None, CLIENT, True),
        (None, of_worker(a("A1")), True),
        (None, UPLINK, False),
        (None, frozenset(), False),
        ({"local"}, CLIENT, True),
        ({"local"}, UPLINK, False),
        ({"uplink:cloud"}, UPLINK, True),
        ({"uplink:cloud"}, CLIENT, False),
        ({"user:alice"}, CLIENT, True),
        ({"worker:A1"}, of_worker(a("A1")), True),
        ({"worker:A1"}, CLIENT, False),
        (set(), CLIENT, False),
    ],
)
def test_who_may_reach_an_address(listed: set[str] | None, source: frozenset[str], may: bool) -> None:
    access = Access({F: frozenset(listed)} if listed is not None else {})
    if may:
        check(access, source, None, F)
        return
    with pytest.raises(RefusedError) as error:
        check(access, source, None, F)
    assert (error.value.reason, error.value.condition) == (Reason.ACCESS, "amqp:unauthorized-access")


def test_where_a_worker_may_send_to() -> None:
    access = Access(outgoing={F: frozenset({a("B")})})
    check(access, of_worker(F), F, a("B"))
    with pytest.raises(RefusedError, match="F may not send here, only to: B"):
        check(access, of_worker(F), F, a("C"))
