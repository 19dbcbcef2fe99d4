"""What a transfer says beside its message passes through a link route as it is (AMQP 1.0 part 2.7.5)."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from proton import Message, uint

from tests.support.beds.queue_routes import queue_routes
from tests.support.clients.wire import DISPOSITION, FLOW, NULL, TRANSFER, TRUE, Wire, described, encode
from tests.support.running import Configuration, RunningRouter, address_of, until

MESSAGE = Message(body=b"x").encode()
TRANSACTION = described(0x34, b"t" * 300)
LONG = described(0x34, b"t" * 16_240)  # more than is left in a block


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return queue_routes("wire")


class Route:
    """A client and a broker that write their frames themselves."""

    def __init__(self, stack: ExitStack, router: RunningRouter, receives: bool, **limits: int) -> None:
        until(lambda: router.core["connections_admitted"] == 0, "end of earlier connections")
        self.broker = stack.enter_context(Wire(address_of(router.urls[1]), **limits))
        self.client = stack.enter_context(Wire(router.address, **limits))
        self.client.ask(0, receives, *(("queue", "") if receives else ("", "queue")))
        self.broker.answer()
        self.sender, self.receiver = (self.broker, self.client) if receives else (self.client, self.broker)
        self.receiver.flow(10)
        self.sender.expect(FLOW)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture(params=[False, True], ids=["in", "out"])
def route(stack: ExitStack, router: RunningRouter, request: pytest.FixtureRequest) -> Route:
    return Route(stack, router, request.param)


@pytest.mark.parametrize("settled", [NULL, TRUE])
@pytest.mark.parametrize("mode", [NULL, b"\x50\0", b"\x50\1"])
def test_all_that_a_transfer_says_is_passed_on(route: Route, mode: bytes, settled: bytes) -> None:
    """Tag, message-format, settle mode, state."""
    route.sender.send(0, MESSAGE, 0x80000101, mode=mode, state=TRANSACTION, settled=settled)
    got = route.receiver.expect(TRANSFER)
    assert got.fields[2:4] == [b"0", 0x80000101]
    assert encode(got.field(6)) == mode
    assert got.field(4) is (settled == TRUE)
    assert TRANSACTION + MESSAGE in got.data


def test_the_state_of_a_stream_is_passed_on(route: Route) -> None:
    """Though it fills several blocks, and the message with it."""
    data = Message(body=b"y" * 100_000).encode()
    route.sender.send(0, data[:20], 7, state=LONG, more=TRUE)
    got = route.receiver.expect(TRANSFER)
    assert got.field(3) == 7
    assert LONG in got.data
    for at in range(20, len(data), 10_000):
        route.sender.transfer(0, data[at : at + 10_000], more=at + 10_000 < len(data))
    while got.field(5):
        got = route.receiver.expect(TRANSFER)
    assert got.data.endswith(data[-1000:])
    route.receiver.dispose(0, TRANSACTION)
    assert TRANSACTION in route.sender.expect(DISPOSITION).data


def test_a_transaction_that_fits_no_frame_is_not_left_out(stack: ExitStack, router: RunningRouter) -> None:
    """A transfer without it would not be the transaction's: the sender hears that its message has failed."""
    route = Route(stack, router, False, max_frame=512)
    route.sender.send(0, MESSAGE, state=described(0x34, b"t" * 440))
    got = route.sender.expect(DISPOSITION)
    assert (got.field(3), got.field(4).descriptor) == (True, 0x27)
    route.sender.send(1, MESSAGE, state=described(0x34, b"t" * 300))
    assert route.receiver.expect(TRANSFER).field(1) == uint(0)
