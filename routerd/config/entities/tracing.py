"""The tracing entity: where spans go, and of which traces (docs/tracing.md)."""

from typing import Annotated

from routerd.config.entities.attribute import Entity, about


class Tracing(Entity, frozen=True, kw_only=True, tag="tracing"):
    """The router sends a span for each delivery of a sampled trace to a collector: [tracing](tracing.md)."""

    endpoint: Annotated[str, about(
        "URL that takes OTLP traces by HTTP, such as http://127.0.0.1:4318/v1/traces.")]  # fmt: skip
    sampling: Annotated[int, about(
        "N, where spans are made of one of N traces, chosen by the trace-id; 0: of none.", ge=0, le=1_000_000
    )] = 1  # fmt: skip
    sampled_only: Annotated[bool, about(
        "Whether a message without the sampled flag in its traceparent makes no span.")] = True  # fmt: skip
