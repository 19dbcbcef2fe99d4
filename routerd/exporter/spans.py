"""The core's spans as OTLP messages, with OpenTelemetry's attributes of messaging.

Sources: opentelemetry/proto/trace/v1/trace.proto; Semantic Conventions for Messaging Systems 1.39. This module needs
opentelemetry-proto, which routers without tracing need not have.
"""

import secrets
from collections.abc import Iterable
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from shm.contract.flow_log.schema import LINK_KINDS, OUTCOMES

NAME: Final = "routerd"
FAULTS: Final = ("rejected", "undeliverable", "aborted", "dropped")  # outcomes that are errors of the span


class Passed(NamedTuple):
    """One delivery of a sampled trace, as shm.native.SpanReader returns it."""

    trace: bytes
    parent: bytes
    arrived: int
    sent: int
    settled: int
    address: bytes | None
    origin: tuple[int, int, int, bytes | None] | None
    target: tuple[int, int, int, bytes | None] | None
    outcome: int
    condition: bytes | None
    hops: int
    size: int
    front: int | None
    presettled: bool


def request(passed: Iterable[Passed], router: str, version: str, host: str, offset: int) -> bytes:
    """Return an ExportTraceServiceRequest. ``offset``: the time of day minus CLOCK_MONOTONIC, in nanoseconds."""
    resource = _attributes({
        "service.name": NAME, "service.version": version, "service.instance.id": router, "host.name": host
    })  # fmt: skip
    scope = ScopeSpans(
        scope=InstrumentationScope(name=NAME, version=version), spans=[_span(one, host, offset) for one in passed]
    )
    spans = ResourceSpans(resource=Resource(attributes=resource), scope_spans=[scope])
    octets: bytes = ExportTraceServiceRequest(resource_spans=[spans]).SerializeToString()
    return octets


def refused(answer: bytes) -> int:
    """Return how many spans an answer refuses (OTLP 1.9, partial success); 0 if it is no such answer."""
    try:
        return max(0, int(ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans))
    except DecodeError:
        return 0


def _span(passed: Passed, host: str, offset: int) -> Span:
    address, outcome = _text(passed.address), OUTCOMES[passed.outcome]
    condition = _text(passed.condition)
    is_fault = outcome in FAULTS
    body = None if passed.front is None else max(0, passed.size - passed.front)
    attributes = {
        "messaging.system": "amqp",
        "messaging.operation.name": "forward",
        "messaging.operation.type": "send",
        "messaging.destination.name": address or None,
        "messaging.message.envelope.size": passed.size,
        "messaging.message.body.size": body,
        "server.address": host,
        "error.type": (condition or outcome) if is_fault else None,
        "routerd.outcome": outcome,
        "routerd.presettled": passed.presettled,
        "routerd.hops": passed.hops,
        **_end("ingress", passed.origin),
        **_end("egress", passed.target),
    }
    code = Status.STATUS_CODE_ERROR if is_fault else Status.STATUS_CODE_UNSET
    return Span(
        trace_id=passed.trace,
        span_id=secrets.token_bytes(8),
        parent_span_id=passed.parent,
        flags=1,  # sampled
        name=f"forward {address}".rstrip(),
        kind=Span.SPAN_KIND_CLIENT,
        start_time_unix_nano=passed.arrived + offset,
        end_time_unix_nano=max(passed.settled, passed.sent, passed.arrived) + offset,
        attributes=_attributes(attributes),
        events=[Span.Event(name="sent", time_unix_nano=passed.sent + offset)] if passed.sent else [],
        status=Status(code=code, message=condition),
    )


def _end(side: str, link: tuple[int, int, int, bytes | None] | None) -> dict[str, str | int | None]:
    """Return the attributes of the link on which a message came, or to which it went."""
    if link is None:
        return {}
    connection, number, kind, container = link
    return {
        f"routerd.{side}.connection": connection,
        f"routerd.{side}.link": number,
        f"routerd.{side}.kind": LINK_KINDS[kind],
        f"routerd.{side}.container": _text(container) or None,
    }


def _attributes(values: dict[str, str | int | bool | None]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in values.items() if value is not None]


def _value(value: str | int | bool) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    return AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)


def _text(octets: bytes | None) -> str:
    return (octets or b"").decode("utf-8", "backslashreplace")
