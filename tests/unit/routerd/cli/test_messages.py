"""Commands at a peer that gives each outcome, and then goes on, detaches or closes; or that denies them."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from proton import Condition, ConnectionException, Delivery

from routerd.cli import messages, route_trace
from routerd.cli.connection_options import ClientError, Place
from routerd.source_routes.address import parse_route
from tests.support.servers.command_peer import CommandPeer, told

OUTCOMES = {
    Delivery.ACCEPTED: "",
    Delivery.REJECTED: "rejected (a:b: why)",
    Delivery.MODIFIED: "modified",
    Delivery.RELEASED: "released; nobody receives from this address, or the receiver gave the message back",
}


class Answering(CommandPeer):
    """Gives its one message ``outcome``, and then ends the link or the connection if told so, or denies all.

    ``why`` is what it says of that.
    """

    def __init__(self, outcome: int | None, end: str, why: str = "") -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.outcome, self.end, self.why = outcome, end, why

    def on_link_opening(self, event: Any) -> None:
        if self.end == "deny":
            event.connection.condition = Condition("amqp:resource-limit-exceeded", "disallowed by local policy")
            event.connection.close()
            return
        event.link.target.copy(event.link.remote_target)
        event.link.flow(1)

    def on_message(self, event: Any) -> None:
        if self.outcome is not None:
            if self.outcome == Delivery.REJECTED:
                event.delivery.local.condition = Condition("a:b", self.why or "why")
            event.delivery.update(self.outcome)
            event.delivery.settle()
        ending = {"detach": event.link, "close": event.connection}.get(self.end)
        if ending is not None:
            ending.condition = Condition("c:d", self.why or "too much")
            ending.close()


def sent(outcome: int | None, end: str, *bodies: str) -> tuple[str, list[str]]:
    """What `routerd send` prints as figures, and its other lines, at a peer that answers the first message so."""
    return told(Answering(outcome, end), "send", "q", *bodies)


@pytest.mark.parametrize("command", ["send q x", "receive q", "ping", "stat --connections", "log", "table who"])
def test_who_is_not_let_in_is_told_of_the_policy(command: str) -> None:
    """By every command, though the router opens the connection before it denies it."""
    _, (why,) = told(Answering(None, "deny"), *command.split())
    assert "disallowed by local policy" in why
    assert why.endswith("; the router's policy lets nobody in from here, or no more")


@pytest.mark.parametrize("end", ["", "detach", "close"])
@pytest.mark.parametrize(("outcome", "told"), OUTCOMES.items())
def test_an_outcome_is_told_whatever_comes_with_it(outcome: int, told: str, end: str) -> None:
    """A router that rejects a message as too large detaches and closes in the same breath."""
    assert sent(outcome, end, "x") == (("0 accepted, 1 not\n", [f"q: {told}"]) if told else ("1 accepted\n", []))


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_body_that_is_no_text_hides_no_outcome(more: list[str]) -> None:
    """Who repeats the command has to know what its receivers have already."""
    figures, (why,) = told(Answering(Delivery.ACCEPTED, ""), "send", "q", "-", *more, typed=b"x\n\xff\n")
    assert why == "Error: standard input:2: this line is not UTF-8; nothing more is sent"
    if more:
        found = json.loads(figures)  # one object, with the error in it
        assert (found["accepted"], found["error"]) == (1, why.removeprefix("Error: "))
    else:
        assert figures == "1 accepted\n"


@pytest.mark.parametrize("end", ["detach", "close"])
def test_what_comes_after_the_end_is_not_sent(end: str) -> None:
    figures, (outcome, lost) = sent(Delivery.REJECTED, end, "x", "y")
    assert figures == "0 accepted, 1 not, 1 not sent\n"
    assert outcome == "q: rejected (a:b: why)"
    assert "c:d: too much" in lost
    assert lost.endswith("the message was not sent; it is safe to send it again")


@pytest.mark.parametrize("end", ["detach", "close"])
def test_an_end_without_an_outcome_is_in_doubt(end: str) -> None:
    figures, (lost,) = sent(None, end, "x")
    assert figures == "0 accepted, 1 with an unknown outcome\n"
    assert "c:d: too much" in lost


def test_what_a_peer_says_moves_no_cursor() -> None:
    """The reasons of an outcome and of an end come from whoever received the message."""
    _, lines = told(Answering(Delivery.REJECTED, "detach", "no\x1b[2J\x9b31m\u202e"), "send", "q", "x", "y")
    assert [line for line in lines if r"no\x1b[2J\x9b31m\u202e" in line] == lines
    assert len(lines) == 2


def test_a_trace_whose_connection_is_lost_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not that this connection cannot be closed any more."""

    def lost(*_: object, **__: object) -> None:
        raise ConnectionException("Connection amqp://a disconnected")

    connection = SimpleNamespace(create_receiver=lost, close=lost)
    monkeypatch.setattr(route_trace, "connect", lambda place: connection)
    with pytest.raises(ClientError, match=r"the connection to .* is lost .*; try again"):
        route_trace.follow(Place(), parse_route("D1=>B2"))


class Interrupted:
    """Is interrupted after so many rounds."""

    def __init__(self, rounds: int) -> None:
        self.left = rounds

    def __call__(self) -> None:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1


def test_rounds_before_an_interruption_count() -> None:
    """Who stops a long ping wants its figures; without any round there are none, and that is no success."""
    assert len(messages._rounds(Interrupted(3), 1000, 1e-6)) == 3
    with pytest.raises(KeyboardInterrupt):
        messages._rounds(Interrupted(0), 1000, 1e-6)
