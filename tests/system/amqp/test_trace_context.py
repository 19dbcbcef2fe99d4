"""The trace context of a message (W3C traceparent and tracestate) is passed on untouched, with tracing or without."""

from collections.abc import Iterator

import pytest
from proton import Described, symbol, ulong

from routerd.cli.client import Client, Place
from tests.support.clients.wire import encode
from tests.support.peer import Net
from tests.support.routers.network import NetworkRouter
from tests.support.running import address_of, until
from tests.support.servers.broker import Broker

CONTEXT = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b,c=d", "own": 1}
ANNOTATED = encode(Described(ulong(0x72), {symbol(name): value for name, value in CONTEXT.items()}))
PROPERTIES = encode(Described(ulong(0x74), CONTEXT))
BODY = encode(Described(ulong(0x77), "body"))
MESSAGES = {
    "annotations": ANNOTATED + BODY,
    "properties": PROPERTIES + BODY,
    "both": ANNOTATED + PROPERTIES + BODY,
    "long": ANNOTATED + PROPERTIES + encode(Described(ulong(0x75), bytes(200_000))),
}
# Where no collector listens: the router reads the context, and sends spans to nobody.
TRACING = "tracing {\n endpoint: http://127.0.0.1:1/v1/traces\n sampledOnly: no\n}\n"
DOOR = "listener {{\n host: 127.0.0.1\n port: 0\n role: inter-router\n annotations: {form}\n}}\n"
MORE = (
    "listener {{\n host: 127.0.0.1\n port: 0\n role: route-container\n}}\n"
    "linkRoute {{\n prefix: routed\n direction: in\n containerId: broker\n}}\n"
    "linkRoute {{\n prefix: routed\n direction: out\n containerId: broker\n}}\n"
    "connector {{\n name: second\n host: 127.0.0.1\n port: {port}\n role: inter-router\n annotations: {form}\n}}\n"
)


def wide(message: bytes) -> bytes:
    """The same with its annotations as a map32: a router that takes its own out of a map may write a shorter head."""
    if not message.startswith(b"\0\x53\x72\xc1"):
        return message
    size, count = message[4] + 3, message[5]
    return message[:3] + b"\xd1" + size.to_bytes(4, "big") + count.to_bytes(4, "big") + message[6:]


@pytest.fixture(scope="module", params=["section", "map"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NetworkRouter]]:
    """Two routers that write annotations of version 1 (a section) or 0 (a map) for each other."""
    folder = tmp_path_factory.mktemp(request.param)
    routers: list[NetworkRouter] = []
    try:
        routers.append(NetworkRouter(folder / "A", more=DOOR.format(form=request.param)))
        more = MORE.format(form=request.param, port=address_of(routers[0].urls[2])[1]) + TRACING
        routers.append(NetworkRouter(folder / "B", more=more))
        routers[1].knows(routers[0].id)
        yield routers
        for router in routers:
            router.stop()
    finally:
        for router in routers:
            router.kill()


@pytest.mark.parametrize("kind", MESSAGES)
@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("prefix", ["balanced", "multicast"])
def test_a_trace_context_is_passed_on(pair: list[NetworkRouter], prefix: str, hops: int, kind: str) -> None:
    address = f"{prefix}.{hops}.{kind}"
    with Net(pair[1].address) as net:
        at = net.peer(pair[0].address if hops == 2 else None)
        receivers = [at.receiver(address, 1) for _ in range(2 if prefix == "multicast" else 1)]
        sender = net.peer().ready_sender(address)
        sent = net.stream(sender, MESSAGES[kind])
        for receiver in receivers:
            (arrived,) = at.take(receiver)
            assert wide(bytes(arrived.data)) == MESSAGES[kind]
            arrived.settle()
        net.settled(sent)


def test_a_trace_context_is_passed_on_by_link_routes(pair: list[NetworkRouter]) -> None:
    """Through one router, and through both."""
    with Net(pair[1].address) as net:
        broker = Broker(net, address_of(pair[1].urls[2])).open()
        broker.round_trip()
        for router in reversed(pair):
            until(lambda router=router: has_route(router), "the route")  # type: ignore[misc]  # mypy infers no default
            client = net.peer(router.address)
            sender = client.ready_sender("routed.queue")
            for message in MESSAGES.values():
                sent = net.stream(sender, message)
                (arrived,) = broker.take(broker.taken())
                assert wide(bytes(arrived.data)) == message
                arrived.settle()
                net.settled(sent)


def has_route(router: NetworkRouter) -> bool:
    """Whether a link to the route's prefix has somewhere to go."""
    with Client(Place(router.url)) as client:
        rows = client.query("router.address", ["name", "containerCount", "remoteCount"])
        return any(row["containerCount"] or row["remoteCount"] for row in rows if row["name"] == "Crouted")
