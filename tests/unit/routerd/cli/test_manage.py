"""`routerd manage` without a router: attributes and their names, numbers, and answers that do not come."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from proton import ConnectionException, Message, Timeout, float32, int32, symbol, timestamp, ulong

from routerd.cli import client as client_module
from routerd.cli.client import Client, ClientError, Place, RefusedError, long_type, plain
from routerd.cli.manage import Ask, attributes, perform, unknown


class Attributes:
    """An agent whose links have two attributes, of which none is set."""

    @staticmethod
    def call(operation: str, **_: Any) -> dict[str, list[str]]:
        """Return the attributes of each type."""
        assert operation == "GET-ATTRIBUTES"
        return {"org.apache.qpid.dispatch.router.link": ["linkName", "peer"]}


@pytest.mark.parametrize("entity_type", ["link", None])
def test_a_name_in_a_query_that_is_no_attribute(entity_type: str | None) -> None:
    """An attribute that no entity has set is one all the same."""
    agent: Any = Attributes()
    near, far = unknown(agent, Ask("query", ("linkName", "peer", "linkNme", "colour"), entity_type), [{}])
    assert near == "there is no attribute 'linkNme'; did you mean linkName?"
    command = "routerd manage get-attributes" + (" --type link" if entity_type else "")
    assert far == f"there is no attribute 'colour'; `{command}` names them all"


def sender(queued: int) -> SimpleNamespace:
    """The link of requests, and how many of them wait for credit."""
    return SimpleNamespace(link=SimpleNamespace(queued=queued))


@pytest.mark.parametrize("operation", ["QUERY", "CREATE"])
def test_a_request_without_credit_is_not_sent(monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    """Nobody takes it, however long it waits, and no change is in doubt."""

    def fails(_: Message) -> None:
        raise Timeout("late")

    monkeypatch.setattr(client_module, "connect", lambda _: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(client_module, "SyncRequestResponse", lambda *_: SimpleNamespace(call=fails, sender=sender(1)))
    with Client(Place()) as client, pytest.raises(ClientError, match="nobody takes requests there") as late:
        client.call(operation, type="listener")
    assert "--timeout" not in late.value.message


@pytest.mark.parametrize("error", [Timeout("late"), ConnectionException("gone")])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE", "PUSH"])
def test_a_change_without_an_answer_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch, operation: str, error: Exception
) -> None:
    """Who repeats it makes an entity twice, or is told that it is there; a request that only reads is repeated."""

    def fails(_: Message) -> None:
        raise error

    monkeypatch.setattr(client_module, "connect", lambda _: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(client_module, "SyncRequestResponse", lambda *_: SimpleNamespace(call=fails, sender=sender(0)))
    with Client(Place()) as client:
        with pytest.raises(ClientError) as changed:
            client.call(operation, type="listener")
        with pytest.raises(ClientError) as read:
            client.call("READ", type="listener")
    assert "may still make it: look before you repeat it" in changed.value.message
    assert "try again" not in changed.value.message
    assert "try again" in read.value.message


def test_attributes() -> None:
    """JSON is what it says, the rest is text."""
    given = ("name=x", "port=5672", "http=true", 'groups={"a": 1}', "pattern=a.#", "enable=info+", "text=a=b")
    assert attributes(given) == {
        "name": "x",
        "port": 5672,
        "http": True,
        "groups": {"a": 1},
        "pattern": "a.#",
        "enable": "info+",
        "text": "a=b",
    }


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("link", "org.apache.qpid.dispatch.router.link"),
        ("address", "org.apache.qpid.dispatch.router.config.address"),
        ("router.address", "org.apache.qpid.dispatch.router.address"),
        ("org.apache.qpid.dispatch.log", "org.apache.qpid.dispatch.log"),
        ("org.amqp.management", "org.amqp.management"),
        (None, None),
    ],
)
def test_short_type_names(name: str | None, full: str | None) -> None:
    """As the tools of qdrouterd have them."""
    assert long_type(name) == full


def test_numbers_of_a_fixed_width_are_numbers() -> None:
    """The engine has classes with texts of their own for int, ulong, float and timestamp."""
    given = {"cost": int32(1), "links": [ulong(22), float32(0.5), timestamp(7)], "on": True, "name": symbol("Q")}
    assert json.dumps(plain(given)) == '{"cost": 1, "links": [22, 0.5, 7], "on": true, "name": "Q"}'


class Refusing:
    """An agent that refuses everything with this status."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text

    def call(self, *_: Any, **__: Any) -> None:
        raise RefusedError(self.status, self.text)


UNNAMED = "No name or identity provided"  # as qdrouterd says, too


@pytest.mark.parametrize("operation", ["read", "update", "delete"])
@pytest.mark.parametrize(
    ("status", "text", "identity", "lists"),
    [
        (400, UNNAMED, None, True), (404, "no", "99999", True), (403, "no", "1", False), (400, "no", "1", False),
    ],
)  # fmt: skip
def test_who_names_no_entity_is_told_where_to_find_it(
    operation: str, status: int, text: str, identity: str | None, lists: bool
) -> None:
    agent: Any = Refusing(status, text)
    with pytest.raises(RefusedError) as refused:
        perform(agent, Ask(operation, ("a=b",) * (operation == "update"), "connection", None, identity))
    advice = "; `routerd manage query --type connection` lists all with their names and identities"
    assert refused.value.message == f"the router refuses ({status}): {text}" + advice * lists


def test_a_value_that_does_not_fit_is_told_alone() -> None:
    """The router is updated without a name: a list of routers would not help."""
    agent: Any = Refusing(400, "router workers: 'abc' does not fit")
    with pytest.raises(RefusedError) as refused:
        perform(agent, Ask("update", ("workers=abc",), "router"))
    assert refused.value.message == "the router refuses (400): router workers: 'abc' does not fit"
