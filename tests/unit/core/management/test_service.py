"""The core's side of management."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from proton import Message

from bench import contract
from core.links.local import MESSAGE_LIMIT
from core.management.request import BAD_REQUEST, ManagementError, Requester
from core.management.service import Service
from shm.contract.control import Answered, ChangeReply, ChangeRequest
from shm.memory import segment
from tests.support.beds.agent import Bed


def test_a_request_that_is_too_long_to_be_passed_on_is_refused() -> None:
    """At once, and not as one for an agent that nobody knows."""
    service = Service.__new__(Service)
    with pytest.raises(ManagementError, match=f"has {MESSAGE_LIMIT + 1} bytes when it is passed on") as refused:
        service._passed_on("amqp:/_topo/0/other/$management", b"x" * (MESSAGE_LIMIT + 1))
    assert refused.value.status == BAD_REQUEST


def test_a_push_that_is_being_read_holds_up_nobody(segments: segment.Segments, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent answers others' requests; the push's answer follows when its table is in use."""
    bed = Bed(segments, "routeTable {\n name: t\n}\n")
    monkeypatch.setattr(Service, "_command", lambda _, action: action())
    service = Service(bed.core, lambda _: None)
    service.set_management(bed.keeper.management())
    answers: list[tuple[str, Message]] = []

    def sent(address: str, content: bytes) -> bool:
        message = Message()
        message.decode(content)
        answers.append((address, message))
        return True

    monkeypatch.setattr(bed.core.local, "send", sent)
    monkeypatch.setattr(service, "_requester", lambda _: Requester(4))
    monkeypatch.setattr(service, "_thread", object())  # the test is the agent's thread

    def ask(reply_to: str, body: Any = None, **properties: str) -> None:
        service.received(Message(reply_to=reply_to, properties=properties, body=body).encode())

    def answer() -> None:
        what, requester = service._requests.get()
        what() if callable(what) else service._answer(what, requester)
        service.step()

    ask("pusher", {"text": "newrt|start|t\nnewrt|end|0\n"}, operation="PUSH", type="routeTable", name="t")
    ask("other", operation="GET-OPERATIONS")
    answer()
    answer()
    assert [to for to, _ in answers] == ["other"]
    bed.core.step(2)
    answer()
    assert [to for to, _ in answers] == ["other", "pusher"]
    assert answers[-1][1].properties["statusCode"] == 200


@pytest.mark.parametrize("awaited", [True, False])
def test_the_supervisor_hears_that_a_worker_has_sent_an_answer(
    segments: segment.Segments, monkeypatch: pytest.MonkeyPatch, awaited: bool
) -> None:
    """If it waits for that, and once: it ends the worker then, and the answer is on its way to the client."""
    bed = Bed(segments)
    told: list[msgspec.Struct] = []

    def tell(message: msgspec.Struct) -> None:
        told.append(message)
        if isinstance(message, ChangeRequest):
            service.changed(ChangeReply(message.number, 200, awaited=awaited))

    def command(action: Callable[[], Any]) -> Any:
        return action()

    service = Service(bed.core, tell)
    service.set_management(bed.keeper.management())
    monkeypatch.setattr(service, "_command", command)
    properties = {"operation": "UPDATE", "type": "router", "identity": "router/me"}
    service._answer(Message(reply_to="news.uk", properties=properties, body={"workers": 2}).encode(), Requester(4))
    service.step()
    service.step()
    bed.core.step(2)
    (sent,) = [one for one in bed.heard() if one["type"] == contract.W_SEND]
    assert [type(one) for one in told] == [ChangeRequest]
    bed.actions.push(contract.pack(type=contract.A_DONE, delivery=sent["peer"]))
    bed.actions.publish()
    bed.core.step(3)
    service.step()
    service.step()
    assert told[1:] == [Answered(1)] * awaited


@pytest.mark.parametrize("late", [True, False])
def test_a_change_that_the_supervisor_does_not_answer_in_time_is_forgotten(
    segments: segment.Segments, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """As is the question to a worker. An answer that comes later finds nobody."""
    monkeypatch.setattr("core.management.service.CHANGE_SECONDS", 0.0)
    monkeypatch.setattr("core.management.service.POLL_SECONDS", 0.0)
    told: list[msgspec.Struct] = []
    bed = Bed(segments)
    service = Service(bed.core, told.append)
    monkeypatch.setattr(service, "_command", lambda action: action())
    with pytest.raises(ManagementError, match="did not answer"):
        service._change("UPDATE", "router", "router/me", {})
    if late:
        service.changed(ChangeReply(1, 200))
    assert service._changes == {}
    monkeypatch.setattr(service, "_command", _fails)
    with pytest.raises(ManagementError, match="the core did not"):
        service._poll(list(bed.core.links.entries()))
    assert service._polls == {}


def _fails(action: Callable[[], Any]) -> Any:
    raise ManagementError(500, "the core did not answer")
