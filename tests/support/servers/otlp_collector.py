"""A collector of spans: OTLP over HTTP, as much of it as a test needs."""

import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.running import until


class OtlpCollector:
    """Keeps each span with its attributes and its resource's. ``answer`` is the status, or does as it likes with the
    handler of a request.
    """

    def __init__(self, port: int = 0) -> None:
        self.spans: list[tuple[Span, dict[str, Any], dict[str, Any]]] = []
        self.answer: int | Callable[[BaseHTTPRequestHandler], None] = 200
        self.requests: list[int] = []  # the number of spans in each
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.take(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/traces"

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        assert (handler.path, handler.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
        body = ExportTraceServiceRequest.FromString(handler.rfile.read(int(handler.headers["Content-Length"])))
        found = [
            (span, attributes(span), attributes(one.resource))
            for one in body.resource_spans
            for scope in one.scope_spans
            for span in scope.spans
        ]
        self.requests.append(len(found))
        if callable(self.answer):
            self.answer(handler)
            return
        if self.answer == 200:
            self.spans += found
        handler.send_response(self.answer)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def of(self, trace: str, number: int) -> list[tuple[Span, dict[str, Any], dict[str, Any]]]:
        """Wait for so many spans of a trace, oldest first."""

        def found() -> list[tuple[Span, dict[str, Any], dict[str, Any]]]:
            return [one for one in list(self.spans) if one[0].trace_id.hex() == trace]

        until(lambda: len(found()) >= number, f"{number} spans of {trace}")
        assert len(found()) == number
        return sorted(found(), key=lambda one: one[0].start_time_unix_nano)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def attributes(of: Any) -> dict[str, Any]:
    """The attributes of a span or a resource by name."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in of.attributes}


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    """An answer that is none."""
    handler.connection.shutdown(socket.SHUT_RDWR)
