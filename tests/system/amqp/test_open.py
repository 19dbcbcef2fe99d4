"""What OPEN says, in both directions: properties, capabilities, where to go when the router is gone."""

import json
from typing import Any

import pytest
from proton import symbol
from proton.handlers import MessagingHandler
from proton.reactor import Container
from proton.utils import BlockingConnection

from routerd.cli.client import Client, Place
from tests.support.running import LONG, Configuration, RunningRouter

ADDED: dict[str, Any] = {
    "text": "x",
    "whole": -3,
    "large": 1 << 40,
    "fraction": 0.0001,
    "yes": True,
    "nothing": None,
    "list": [1, "a", [None], {"b": False}],
    "map": {"key": {"key": 1}},
    "empty": {},
}


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(
        listener=f"host: 127.0.0.1\n port: 0\nopenProperties: {json.dumps(ADDED)}\nfailoverUrls: b:1, amqps://c:2"
    )


class Opening(MessagingHandler):
    """Connects, and looks at the router's OPEN."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__()
        self.url, self.options = url, options
        self.properties: dict[Any, Any] = {}
        self.capabilities: list[list[Any]] = []

    def on_start(self, event: Any) -> None:
        event.container.connect(self.url, reconnect=False, **self.options)

    def on_connection_opened(self, event: Any) -> None:
        said = event.connection
        self.properties = dict(said.remote_properties or {})
        self.capabilities = [
            list(one or []) for one in (said.remote_offered_capabilities, said.remote_desired_capabilities)
        ]
        said.close()


def opened(url: str, **options: Any) -> Opening:
    opening = Opening(url, **options)
    Container(opening).run()
    return opening


def test_a_listener_adds_properties_and_says_where_else_to_go(router: RunningRouter) -> None:
    properties = opened(router.url).properties
    assert {key: properties[symbol(key)] for key in ADDED} == ADDED
    assert properties[symbol("failover-server-list")] == [
        {"network-host": "b", "port": "1"},
        {"scheme": "amqps", "network-host": "c", "port": "2"},
    ]


@pytest.mark.parametrize("said", [None, [], symbol("single"), ["A", "B"]])
def test_the_routers_capabilities_do_not_depend_on_the_peers(router: RunningRouter, said: Any) -> None:
    """Offered and desired are the same, as routers of this protocol have it."""
    offered, desired = opened(router.url, offered_capabilities=said, desired_capabilities=said).capabilities
    assert symbol("ANONYMOUS-RELAY") in offered
    assert offered == desired


def test_a_clients_properties_are_shown_as_it_sent_them(router: RunningRouter) -> None:
    connection = BlockingConnection(router.url, timeout=LONG, properties=ADDED)
    with Client(Place(router.url)) as client:
        assert ADDED in [row["properties"] for row in client.query("connection")]
    connection.close()
