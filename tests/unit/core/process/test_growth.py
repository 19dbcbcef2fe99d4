"""What one event costs the core's control plane does not grow with the number of connections, links and addresses."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec

from bench.contract import C_ATTACH, C_CONNECTION_CLOSED, C_CONNECTION_OPENED, C_DETACH
from shm.contract.payloads import Attach, ConnectionClosed, ConnectionOpened, Detach
from tests.support.beds.control import Bed

FEW, MANY = 100, 400
GROWTH = 1.25


class Lines:
    """Counts the lines of Python that run meanwhile, in functions that begin meanwhile."""

    def __enter__(self) -> "Lines":
        self.count = 0
        sys.settrace(self._trace)
        return self

    def _trace(self, _: FrameType, event: str, __: Any) -> "Callable[..., Any]":
        self.count += event == "line"
        return self._trace

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)


def costs(n: int) -> dict[str, float]:
    """The lines of one event of each kind, with ``n`` connections, each with a sender and a receiver of its own address
    and a receiver that shares one with all others."""
    bed = Bed()
    events: dict[str, list[tuple[int, msgspec.Struct]]] = {
        "open": [(C_CONNECTION_OPENED, ConnectionOpened(i, 1, f"c{i}", f"h{i}:1")) for i in range(n)],
        "attach_sender": [(C_ATTACH, Attach(i, 1, i, "to", False, f"own.{i}")) for i in range(n)],
        "attach_anonymous": [(C_ATTACH, Attach(n + i, 1, i, "any", False, None)) for i in range(n)],
        "attach_receiver": [(C_ATTACH, Attach(2 * n + i, 1, i, "from", True, f"own.{i}")) for i in range(n)],
        "share_receiver": [(C_ATTACH, Attach(3 * n + i, 1, i, "all", True, "shared")) for i in range(n)],
        "detach": [(C_DETACH, Detach(i, 1)) for i in range(4 * n)],
        "close": [(C_CONNECTION_CLOSED, ConnectionClosed(i, 1)) for i in range(n)],
    }
    found = {}
    for name, some in events.items():
        count = 0
        for kind, payload in some:
            bed.say(kind, payload)
            with Lines() as lines:
                bed.core.step(1)
            count += lines.count
            bed.heard()
        found[name] = count / len(some)
    assert len(bed.core.links) == len(bed.core.connections) == 0
    return found


def test_events_cost_as_much_among_many() -> None:
    """Connections that open and close, links that come and go."""
    few, many = costs(FEW), costs(MANY)
    assert {name: (few[name], cost) for name, cost in many.items() if cost > few[name] * GROWTH} == {}
