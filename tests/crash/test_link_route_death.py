"""kill -9 of the core: links of link routes end at both ends, but nothing that a broker is to keep is lost there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Terminus

from tests.support.beds.queue_routes import queue_routes
from tests.support.peer import Net, is_closed, is_open
from tests.support.routers.hurt import HurtRouter
from tests.support.running import address_of
from tests.support.servers.broker import Broker


@pytest.fixture
def router(tmp_path: Path) -> Iterator[HurtRouter]:
    router = HurtRouter(tmp_path, queue_routes("broker"))
    try:
        yield router
    finally:
        router.kill()


@pytest.mark.parametrize("blank", [True, False])
def test_a_durable_subscription_outlives_the_core(router: HurtRouter, blank: bool) -> None:
    """The broker, which may not repeat what it was asked for, would drop it with the close of its link; any other link
    is closed."""
    with Net(address_of(router.urls[0])) as net:
        (broker := Broker(net, address_of(router.urls[1])).open()).round_trip()
        broker.blank = blank
        client = net.peer()
        links = [client.begin_receiver(f"queue.{n}") for n in range(2)]
        lasting = client.default_session.receiver("lasting")  # type: ignore[union-attr]  # it is open
        lasting.source.address = "queue.2"
        lasting.source.expiry_policy = Terminus.EXPIRE_NEVER
        lasting.open()
        net.until(lambda: all(map(is_open, [*links, lasting])), "attaches")
        router.hit("core")
        net.until(lambda: len(broker.detached) == 3, "detaches at the broker")
        assert {link.name: closed for link, closed in broker.detached} == {
            **{f"{link.name}@{client.connection.container}": True for link in links},
            f"lasting@{client.connection.container}": False,
        }
        net.until(lambda: all(map(is_closed, links)), "closes at the client")
        net.until(lambda: lasting.remote_condition is not None, "detach at the client")
        assert lasting.remote_condition is not None
        assert lasting.remote_condition.name == "qd:routed-link-lost"
