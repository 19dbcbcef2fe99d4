"""Link-route pairs that the router gives up: what it cannot tell the core of is more than the core reads."""

from typing import Any

import pytest
from proton import Described, symbol, uint, ulong

from bench import contract as n
from shm.contract.payloads import NEVER, ConnectionOpened, LinkRefused, OpenLink, Termini, Terminus
from shm.native import ROUTED_SESSIONS
from tests.support.beds.dialled import dialled
from tests.support.clients.wire import ATTACH, BEGIN, DETACH, SOURCE, TARGET, described, frame
from tests.unit.workers.test_peer_limits import begun
from workers.control import registry

LASTING = [Terminus(1, "q", expires=True, expiry=NEVER), Terminus(1, "q", timeout=9)]
BRIEF = Terminus(1, "q", durability=2)


@pytest.mark.parametrize("outgoing", [True, False])
@pytest.mark.parametrize("lasts", [True, False])
def test_a_terminus_that_is_to_last_outlives_an_answer_that_is_too_long(
    outgoing: bool, lasts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the broker's answer does not say that it is to last: the client has asked for that."""
    monkeypatch.setattr(registry, "LONGEST", 4096)
    with dialled(f"long-{outgoing}-{lasts}") as broker:
        (opened,) = broker.stand.hear(ConnectionOpened)
        ends: list[Any] = [Described(ulong(SOURCE), ["q"]), Described(ulong(TARGET), ["q"])]
        for request, counting in enumerate(LASTING if lasts else [BRIEF], 1):
            termini = Termini(BRIEF, counting) if outgoing else Termini(counting, BRIEF)
            name = opened.connection, opened.generation
            link = OpenLink(*name, request, f"l{request}", outgoing, session=ROUTED_SESSIONS, termini=termini)
            broker.stand.tell(n.C_OPEN_LINK, link)
            if request == 1:
                broker.frames(BEGIN)
                broker.write(begun(0, 0))
            broker.frames(ATTACH)
            said = described(
                ATTACH, f"l{request}", uint(request - 1), outgoing, None, None, *ends, None, None,
                None if outgoing else uint(0), None, None, None, {symbol("p"): "x" * 5000},
            )  # fmt: skip
            broker.write(frame(0, said))
            (detach,) = broker.frames(DETACH)
            assert (len(detach) > 1 and bool(detach[1])) == (not lasts)
            (refused,) = broker.stand.hear(LinkRefused)
            assert refused.error is not None
            assert "1 MiB" in refused.error.description
