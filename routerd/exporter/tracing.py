"""Sends spans to a collector by OTLP over HTTP, in a thread of its own (docs/tracing.md).

    idle --spans--> sending --200--> idle
    sending --no connection, 429, 502, 503, 504--> resting --back-off is over--> sending the same spans
    sending --any other answer--> idle, and these spans are refused

Spans wait in shared memory, where the core overwrites the oldest ones: while the collector is down or slow, this thread
holds one request and nothing grows.
"""

import contextlib
import http.client
import logging
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from prometheus_client.samples import Exemplar

from shm.contract.complaints import Complaints
from shm.contract.failures import start_thread
from shm.contract.hosts import machine_name
from shm.contract.tracing import TracingSetup
from shm.native import SpanReader

if TYPE_CHECKING:
    from routerd.exporter.spans import Passed

LOGGER = logging.getLogger("HTTP")

MOST: Final = 512  # spans of a request
PAUSE_SECONDS: Final = 0.5  # between two looks for spans
PATIENCE_SECONDS: Final = 5.0  # for each step of a request: connecting, writing, the next octets of the answer
LONGEST_SECONDS: Final = 15.0  # for all of a request
MOST_ANSWER: Final = 4096  # octets of an answer that are read
LONGEST_REST: Final = 30.0
_LATER: Final = (429, 502, 503, 504)  # statuses after which OTLP repeats a request
_HEADERS: Final = {"Content-Type": "application/x-protobuf", "User-Agent": "routerd", "Connection": "close"}


class UnavailableError(Exception):
    """The collector takes no spans now."""


class RefusedError(Exception):
    """The collector does not take these spans."""


class Tracing:
    """Reads spans and sends them while there is an endpoint; ``sent`` and ``refused`` count them.

    ``exemplars`` has the newest span of each latency class: n is that of 2^(n-1) to 2^n - 1 nanoseconds, at most 64.
    """

    def __init__(self, reader: SpanReader, router: str, version: str) -> None:
        self.sent = 0
        self.refused = 0
        self.exemplars: dict[int, Exemplar] = {}
        self._reader = reader
        self._names = router, version, machine_name()
        self._setup = TracingSetup()
        self._thread: threading.Thread | None = None
        self._woken = threading.Event()
        self._complaints = Complaints()
        self._held = b"", 0  # the request that has not been answered, and its number of spans
        self._trouble = False
        self._rest = 0.0
        self._began = 0.0  # when the request under way began; 0: there is none
        self._socket: socket.socket | None = None

    def counts(self) -> dict[str, int]:
        """Return the number of spans by what became of them."""
        return {"sent": self.sent, "refused": self.refused, "lost": self._reader.lost}

    def configure(self, setup: TracingSetup) -> None:
        """Send to this set-up's endpoint from now on."""
        self._setup = setup
        self._rest = 0.0
        self._begin()
        self._woken.set()

    def _begin(self) -> None:
        if self._setup.endpoint and self._thread is None:
            self._thread = start_thread("tracing", self._work, again=PAUSE_SECONDS)

    def step(self, now: float) -> None:
        """End a request that takes too long, whatever its collector still sends; begin if no thread was to be had."""
        self._begin()
        began, sock = self._began, self._socket
        if began and now - began > LONGEST_SECONDS and sock is not None:
            with contextlib.suppress(OSError):  # it has ended
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # TLS's own would drop what the thread uses

    def _work(self) -> None:
        while True:
            self._woken.wait(self.turn() or None)
            self._woken.clear()

    def turn(self) -> float:
        """Send what waits; return the seconds until the next turn, 0 while there is no tracing."""
        while endpoint := self._setup.endpoint:
            if not self._held[1] and not self._take():
                return PAUSE_SECONDS
            try:
                self._post(endpoint, self._held[0])
            except UnavailableError as why:
                self._tell(endpoint, why)
                self._rest = min(max(1.0, self._rest * 2), LONGEST_REST)
                return self._rest
            except RefusedError as why:
                self._tell(endpoint, why)
                self.refused += self._held[1]
            else:
                self.sent += self._held[1]
                self._well(endpoint)
            self._held, self._rest = (b"", 0), 0.0
        self._held = b"", 0
        return 0.0

    def _take(self) -> bool:
        """Hold the next spans as a request; return False if there are none."""
        from routerd.exporter import spans  # noqa: PLC0415  it needs what routers without tracing need not have

        passed = [spans.Passed(*one) for one in self._reader.read(MOST)]
        if passed:
            offset = time.time_ns() - time.monotonic_ns()
            self._held = spans.request(passed, *self._names, offset), len(passed)
            for one in passed:
                self._remember(one, offset)
        return bool(passed)

    def _remember(self, one: "Passed", offset: int) -> None:
        took = one.settled - one.arrived
        if took > 0:
            ids = {"trace_id": one.trace.hex(), "span_id": one.parent.hex()}
            self.exemplars[took.bit_length()] = Exemplar(ids, took * 1e-9, (one.settled + offset) * 1e-9)

    def _post(self, endpoint: str, body: bytes) -> None:
        """Send a request. Raises UnavailableError and RefusedError."""
        parts = urlsplit(endpoint)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._began = time.monotonic()
        try:
            connection = self._connection(parts.scheme, parts.hostname or "", parts.port)
            with contextlib.closing(connection):
                connection.connect()
                self._socket = connection.sock
                connection.request("POST", path, body, _HEADERS)
                with connection.getresponse() as response:
                    status, answer = response.status, response.read(MOST_ANSWER)
        except OSError as error:
            raise UnavailableError(str(error) or type(error).__name__) from None
        except http.client.HTTPException as error:
            raise RefusedError(f"it answers what is no HTTP ({type(error).__name__})") from None
        finally:
            self._began, self._socket = 0.0, None
        self._judge(status, answer)

    def _connection(self, scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=PATIENCE_SECONDS, context=context)
        return http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)

    def _judge(self, status: int, answer: bytes) -> None:
        from routerd.exporter import spans  # noqa: PLC0415  as above

        if status in _LATER:
            raise UnavailableError(f"it answers {status}")
        if not 200 <= status < 300:
            raise RefusedError(f"it answers {status}")
        refused = min(spans.refused(answer), self._held[1])
        if refused:
            self.refused += refused
            self._held = self._held[0], self._held[1] - refused

    def _tell(self, endpoint: str, why: Exception) -> None:
        if not self._trouble:
            text = "Tracing: %s takes no spans: %s; routerd_trace_spans_total counts what is lost"
            self._complaints.tell(time.monotonic(), LOGGER, logging.WARNING, text, endpoint, why)
        self._trouble = True

    def _well(self, endpoint: str) -> None:
        if self._trouble:
            text = "Tracing: %s takes spans again"
            self._complaints.tell(time.monotonic(), LOGGER, logging.INFO, text, endpoint)
        self._trouble = False
