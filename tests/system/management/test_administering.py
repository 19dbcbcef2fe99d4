"""Using and administering are two rights: every way to an agent, tried by who may only read, or nothing.

Router `near` has a listener for each right, and knows `far` by a network. Router `strange` is let in by
`near` for questions only. What is created is a `dummy`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message, symbol
from proton.reactor import AtMostOnce
from proton.utils import BlockingConnection, LinkDetached

from shm.contract.management import PREFIX
from tests.support.routers.network import NetworkRouter
from tests.support.running import LONG

LISTENERS = "".join(
    f"listener {{\n host: 127.0.0.1\n port: 0\n management: {right}\n}}\n" for right in ("read", "none")
)
LISTENERS += "listener {\n host: 127.0.0.1\n port: 0\n role: inter-router\n management: read\n}\n"
WORKER = "routeWorker {\n kind: forward\n address: worker\n}\n"
DUMMY = f"{PREFIX}dummy"
FORBIDDEN = 403
READ, NONE, ROUTERS = 2, 3, 4  # places of the listeners among the URLs


@pytest.fixture(scope="module")
def routers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NetworkRouter, NetworkRouter]]:
    """Two routers that know each other."""
    folder = tmp_path_factory.mktemp("routers")
    near = NetworkRouter(folder / "near", more=LISTENERS + WORKER)
    far = NetworkRouter(folder / "far", near.routers_url, more=LISTENERS)
    near.knows(far.id)
    far.knows(near.id)
    yield near, far
    far.stop()
    near.stop()


class Asker:
    """A client of one listener."""

    def __init__(self, url: str) -> None:
        self._connection = BlockingConnection(url, timeout=LONG)
        self._replies = self._connection.create_receiver(None, dynamic=True)

    def ask(
        self, operation: str, to: str, target: str | None = None, route: list[str] | None = None, *,
        settled: bool = False,
    ) -> tuple[int, str]:  # fmt: skip
        """The status and the text of the answer."""
        sender = self._connection.create_sender(target, options=AtMostOnce() if settled else None)
        named = {"entityType": DUMMY} if operation == "QUERY" else {"type": DUMMY, "name": "made"}
        request = Message(
            address=to,
            reply_to=self._replies.remote_source.address,
            properties={"operation": operation, **named},
            body={},
        )
        if route:
            request.annotations = {symbol("x-opt-route.onward"): route}
        sender.send(request)
        answer = self._replies.receive(timeout=LONG)
        sender.close()
        return int(answer.properties["statusCode"]), str(answer.properties["statusDescription"])

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def reader(routers: tuple[NetworkRouter, NetworkRouter]) -> Iterator[Asker]:
    """Who may read."""
    asker = Asker(routers[0].urls[READ])
    yield asker
    asker.close()


def spellings(near: str, far: str) -> list[str]:
    """What the agents of both are called."""
    mine = ["$management", "/$management", "amqp:/_local/$management", "_local/agent", f"_topo/0/{near}/agent"]
    mine += [f"amqp://host:1/_topo/0/{near}/$management", f"_topo/all/{near}/$management/"]
    return [*mine, f"_topo/0/{far}/$management", f"amqp:/_topo/0/{far}/agent", f"/_topo/0/{far}/$management."]


def test_who_reads_changes_no_router_however_its_agent_is_spelt(
    routers: tuple[NetworkRouter, NetworkRouter], reader: Asker
) -> None:
    """By a target or by `to`, settled or not, here and there; and all of them answer a question."""
    for address in spellings(*(router.id for router in routers)):
        for how in ({"target": address}, {}, {"settled": True}):
            status, text = reader.ask("CREATE", address, **how)
            assert (status, "may only read" in text) == (FORBIDDEN, True), (address, how, text)
        assert reader.ask("QUERY", address)[0] == 200, address
        assert reader.ask("QUERY", address, address)[0] == 200, address
    for router in routers:
        admin = Asker(router.url)
        assert admin.ask("DELETE", "$management", "$management")[0] == 404, "nothing was made"
        admin.close()


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE", "PUSH", "CALLME", "PROFILE", "REGISTER"])
def test_who_reads_may_do_nothing_else(reader: Asker, operation: str) -> None:
    """What no list of questions names is a change."""
    assert reader.ask(operation, "$management", "$management")[0] == FORBIDDEN


def test_a_route_of_the_message_opens_no_door(routers: tuple[NetworkRouter, NetworkRouter], reader: Asker) -> None:
    """A worker of source routes sends on in its client's name."""
    for agent in ("_local/$management", f"_topo/0/{routers[1].id}/$management"):
        status, text = reader.ask("CREATE", "", "worker", ["worker", agent])
        assert (status, "may only read" in text) == (FORBIDDEN, True), (agent, text)


def test_a_router_that_nobody_knows_is_told(reader: Asker) -> None:
    """A question that is passed on to nobody has an answer."""
    status, text = reader.ask("QUERY", "_topo/0/nobody/$management", "_topo/0/nobody/$management")
    assert (status, "no known router" in text) == (404, True)


def test_who_may_nothing_attaches_to_no_agent(routers: tuple[NetworkRouter, NetworkRouter]) -> None:
    """The attach is refused, and a message that goes there all the same is answered 403."""
    connection = BlockingConnection(routers[0].urls[NONE], timeout=LONG)
    for address in spellings(*(router.id for router in routers)):
        with pytest.raises(LinkDetached, match=r"unauthorized-access.*may not manage"):
            connection.create_sender(address)
    connection.close()
    asker = Asker(routers[0].urls[NONE])
    for address in spellings(*(router.id for router in routers)):
        assert asker.ask("QUERY", address)[0] == FORBIDDEN, address
    asker.close()


def test_a_router_is_judged_by_the_connection_that_it_comes_by(
    routers: tuple[NetworkRouter, NetworkRouter], tmp_path: Path
) -> None:
    """Whoever it lets do all: it asks its neighbour, and by way of that all others, but changes none."""
    strange = NetworkRouter(tmp_path / "strange", routers[0].urls[ROUTERS])
    strange.knows(*(router.id for router in routers))
    asker = Asker(strange.url)
    for router in routers:
        agent = f"_topo/0/{router.id}/$management"
        for how in ({"target": agent}, {}, {"settled": True}):
            assert asker.ask("CREATE", agent, **how)[0] == FORBIDDEN, (agent, how)
        assert asker.ask("QUERY", agent)[0] == 200
    assert asker.ask("CREATE", "$management")[0] == 201
    asker.close()
    strange.stop()


def test_who_may_all_changes_both(routers: tuple[NetworkRouter, NetworkRouter]) -> None:
    """From this machine that is everybody, unless a listener says otherwise; through other routers, too."""
    near, far = routers
    admin = Asker(near.url)
    for agent in ("$management", f"_topo/0/{far.id}/$management"):
        assert admin.ask("CREATE", agent, agent)[0] == 201
        assert admin.ask("DELETE", agent)[0] == 204
        assert admin.ask("CREATE", agent, settled=True)[0] == 201
        assert admin.ask("DELETE", agent, agent, settled=True)[0] == 204
    admin.close()
