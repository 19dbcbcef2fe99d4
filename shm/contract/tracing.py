"""The tracing's configuration for core, workers and exporter."""

import msgspec


class TracingSetup(msgspec.Struct, frozen=True):
    """One ``tracing`` entity. Spans go to ``endpoint``; "": there is no tracing.

    The core makes spans of one of ``sampling`` traces, 0 of none; with ``sampled_only``, only of messages whose
    traceparent has the sampled flag.
    """

    endpoint: str = ""
    sampling: int = 0
    sampled_only: bool = True

    @property
    def low(self) -> int:
        """The highest low eight octets of a trace-id of which spans are made; 0: of none.

        OpenTelemetry's TraceIdRatioBased samples the same traces with the ratio 1 / ``sampling``.
        """
        return round((1 << 64) / self.sampling) - 1 if self.sampling else 0


class SetTracing(msgspec.Struct, tag=True, frozen=True):
    """To core, workers and exporter: replace the tracing's configuration."""

    tracing: TracingSetup
