"""When a message came: the flow logs of two routers say together how long it was on its way."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from proton import Described, uint, ulong

from bench import contract as n
from shm.contract.payloads import Attach, Attached
from tests.support.beds.door import Client, Door
from tests.support.clients.wire import (
    AMQP_HEADER,
    ATTACH,
    FLOW,
    OPEN,
    SOURCE,
    TARGET,
    TRANSFER,
    begin,
    described,
    frame,
)

SHORT = b"\0\x53\x77\xa1\x14" + 20 * b"x"
ENDS = Described(ulong(SOURCE), ["x"]), Described(ulong(TARGET), ["a"])


class Core(Door):
    """Its core notes when messages came, by the worker's clock."""

    def __init__(self) -> None:
        super().__init__("times", None)
        self.came: list[int] = []

    def _hear(self, action: dict[str, int]) -> None:
        if action["type"] == n.A_DELIVER:
            self.came.append(action["time"])
        super()._hear(action)


def attach(handle: int) -> bytes:
    return frame(0, described(ATTACH, f"s{handle}", uint(handle), False, None, None, *ENDS, None, None, uint(0)))


def sender(core: Core) -> Client:
    """A client with a link that has credit."""
    client = Client(core, core.dial())
    client.write(AMQP_HEADER + frame(0, described(OPEN, "peer")) + begin(0))
    client.take(len(AMQP_HEADER))
    client.write(attach(0))
    (asked,) = core.hear(Attach)
    core.tell(n.C_ATTACHED, Attached(asked.link, asked.generation))
    core.work.push(n.pack(type=n.W_FLOW, link=asked.link, link_gen=asked.generation, credit=5))
    client.all_until(FLOW)
    return client


@pytest.fixture
def core() -> Iterator[Core]:
    core = Core()
    yield core
    core.end()


def test_a_message_comes_no_earlier_than_it_was_sent(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of the worker reads what is sent while it reads from others, and then its beginning is over."""
    sent = list[int]()
    busy, late = sender(core), sender(core)
    message = frame(0, described(TRANSFER, uint(0), uint(0), b"t", uint(0), True), SHORT)
    ask = core.handler.attach

    def meanwhile(*args: Any, **named: Any) -> Any:
        sent.append(time.monotonic_ns())
        late.socket.sendall(message[4:])
        return ask(*args, **named)

    monkeypatch.setattr(core.handler, "attach", meanwhile)
    busy.socket.sendall(attach(1))
    late.socket.sendall(message[:4])  # so that the turn looks at this one, too
    core.until(lambda: core.came, "the message")
    assert sent[0] <= core.came[0] <= time.monotonic_ns()
    for client in (busy, late):
        client.socket.close()
