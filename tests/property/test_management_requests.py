"""Requests of any shape: an answer that says whose fault it is, never a failure of the agent's own."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proton import Message

from core.amqp import codec as wire
from core.management import codec
from core.management.agent import Agent
from core.management.request import Request
from core.management.view import View
from core.process.router import Core
from routerd.config import default_config
from shm.contract.control import Setup
from shm.memory import segment
from tests.support.beds.keeper import Keeper
from tests.support.values.spelled import SPELLINGS, spelled

WORDS = (
    "QUERY", "READ", "CREATE", "UPDATE", "DELETE", "GET-LOG", "GET-SCHEMA", "GET-TYPES", "self", "name",
    "identity", "org.amqp.management", "router", "router.link", "router.config.address", "log", "listener",
    "vhost", "sslProfile", "connector", "hostname", "groups", "port",
    "prefix", "pattern", "distribution", "attributeNames", "module", "DEFAULT", "", "x",
)  # fmt: skip
TEXT = st.sampled_from(WORDS) | st.text(max_size=5)
SIMPLE = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | TEXT | st.binary(max_size=5)
VALUES = st.recursive(
    SIMPLE, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)
KEYS = ("operation", "type", "name", "identity", "entityType", "offset", "count", "limit", "indent")
PROPERTIES = st.fixed_dictionaries(
    {}, optional={key: TEXT | st.integers(-5, 5) | st.none() | st.booleans() for key in KEYS}
)


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    """An agent beside a core without workers' messages."""
    segments = segment.create(segment.segment_prefix("test-requests", os.getpid()), 1, 4)
    try:
        keeper = Keeper(default_config())
        setup = Setup("core", 1, 1, "/none", "me", "0", 1, [-1], management=keeper.management())
        core = Core(setup, segments, b"seed")
        view = View(core, lambda action: action(), keeper.change)
        keeper.agent = Agent(view)
        yield keeper.agent
    finally:
        segments.unlink()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PROPERTIES, VALUES, st.lists(st.sampled_from(SPELLINGS), min_size=1, max_size=4))
def test_every_request_has_an_answer(agent: Agent, properties: dict[str, Any], body: Any, spelling: list[int]) -> None:
    """Success, or 4xx or 501, whatever the spelling of its sections; and the answer can be encoded."""
    message = Message(reply_to="back", properties=properties, body=body)
    envelope, request = codec.decode(spelled(bytes(message.encode()), spelling))
    assert envelope.reply_to == "back"
    response = agent.handle(request) if isinstance(request, Request) else None
    if response is not None:
        assert response.status != 500, response.text
        reply = Message()
        reply.decode(codec.encode(envelope, response))  # the engine's limits are those of its clients
        assert (reply.address, reply.properties["statusCode"]) == ("back", response.status)
        assert reply.body == wire.Parser(wire.value({} if response.body is None else response.body)).value()


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 80), st.integers(0, 255))
def test_no_bytes_hurt_the_decoder(rest: bytes, at: int, value: int) -> None:
    """Bytes of any kind, and a request with one byte changed: decoded, or dropped with a reason."""
    whole = bytearray(Message(reply_to="back", properties={"operation": "QUERY"}, body={"a": [1]}).encode())
    whole[at % len(whole)] = value
    for content in (rest, bytes(whole), bytes(whole[: at % len(whole)])):
        with contextlib.suppress(codec.NoReplyError):
            codec.decode(content)
