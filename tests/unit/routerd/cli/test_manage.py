"""`routerd manage` without a router: names that are no attributes, and answers that do not come."""

from types import SimpleNamespace
from typing import Any

import pytest
from proton import ConnectionException, Message, Timeout

from routerd.cli import client as client_module
from routerd.cli.client import Client, ClientError, Place
from routerd.cli.manage import Ask, unknown


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


@pytest.mark.parametrize("error", [Timeout("late"), ConnectionException("gone")])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE", "PUSH"])
def test_a_change_without_an_answer_is_in_doubt(
    monkeypatch: pytest.MonkeyPatch, operation: str, error: Exception
) -> None:
    """Who repeats it makes an entity twice, or is told that it is there; a request that only reads is repeated."""

    def fails(_: Message) -> None:
        raise error

    monkeypatch.setattr(client_module, "connect", lambda _: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(client_module, "SyncRequestResponse", lambda *_: SimpleNamespace(call=fails))
    with Client(Place()) as client:
        with pytest.raises(ClientError) as changed:
            client.call(operation, type="listener")
        with pytest.raises(ClientError) as read:
            client.call("READ", type="listener")
    assert "may still make it: look before you repeat it" in changed.value.message
    assert "try again" not in changed.value.message
    assert "try again" in read.value.message
