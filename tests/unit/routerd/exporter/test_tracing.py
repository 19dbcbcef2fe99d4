"""Spans on their way to a collector: what the core has recorded, read and sent, whatever the collector does."""

import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from routerd.exporter import spans, tracing
from routerd.exporter.tracing import Tracing
from shm.contract.tracing import TracingSetup
from shm.native import SPAN_ROOM, TELEMETRY_BYTES, SpanReader
from tests.support.beds.flow import Bed
from tests.support.servers.otlp_collector import OtlpCollector

TRACE, SPAN = bytes(range(16)), bytes(range(1, 9))
ONE = (TRACE, SPAN, 10, 20, 30, b"news", (1, 71, 0, b"me"), (2, 72, 1, None), 0, None, 0, 100, 40, False)


class Given:
    """A reader of spans that has these."""

    def __init__(self, *waiting: tuple[object, ...]) -> None:
        self.waits = list(waiting)
        self.lost = 0

    def read(self, most: int) -> list[tuple[object, ...]]:
        read, self.waits[:most] = self.waits[:most], []
        return read


def sender(reader: Given, endpoint: str) -> Tracing:
    """Without its thread: the test takes the turns."""
    made = Tracing(reader, "R", "1")  # type: ignore[arg-type]  # as much of a SpanReader as is used
    made._setup = TracingSetup(endpoint, 1)
    return made


@pytest.fixture
def collector() -> Iterator[OtlpCollector]:
    with OtlpCollector() as collector:
        yield collector


def test_octets_that_are_no_text_are_shown_as_in_the_flow_log() -> None:
    """And not all as the same sign: an address of a client may be any octets."""
    one = spans.Passed(*ONE)._replace(address=b"K\xf6ln\xff", condition=b"\xfe")
    made = ExportTraceServiceRequest.FromString(spans.request([one], "R", "1", "h", 0))
    assert made.resource_spans[0].scope_spans[0].spans[0].name == "forward K\\xf6ln\\xff"


def test_requests_are_bounded(collector: OtlpCollector) -> None:
    one = sender(Given(*[ONE] * 1300), collector.url)
    assert one.turn() == tracing.PAUSE_SECONDS
    assert collector.requests == [512, 512, 276]
    assert one.counts() == {"sent": 1300, "refused": 0, "lost": 0}


def test_a_collector_that_is_away_is_asked_ever_less(caplog: pytest.LogCaptureFixture) -> None:
    """The request waits, and all else stays where it is; the log has one line when it goes, one when it is back."""
    reader = Given(*[ONE] * 600)
    with OtlpCollector() as closed:
        url, port = closed.url, closed.port
    one = sender(reader, url)
    assert [one.turn() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert (len(reader.waits), one.sent, one.refused) == (88, 0, 0)
    with caplog.at_level(logging.INFO), OtlpCollector(port):
        one.turn()
        assert one.sent == 600
    assert [line.message for line in caplog.records] == [
        f"Tracing: {url} takes no spans: [Errno 111] Connection refused; routerd_trace_spans_total counts what is lost",
        f"Tracing: {url} takes spans again",
    ]


def test_the_newest_span_of_each_latency_class_is_an_exemplar(collector: OtlpCollector) -> None:
    """And of those that have not ended, or before they began, none is."""
    took = [(1000, 1), (1000, 9400), (1000, 9500), (1000, 1000)]
    given = [(bytes((place,)) * 16, SPAN, came, 0, gone, *ONE[5:]) for place, (came, gone) in enumerate(took)]
    one = sender(Given(*given), collector.url)
    one.turn()
    (exemplar,) = one.exemplars.values()
    assert list(one.exemplars) == [14]
    assert exemplar.labels == {"trace_id": "02" * 16, "span_id": SPAN.hex()}
    assert exemplar.value == pytest.approx(8.5e-6)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_statuses_that_ask_for_patience(collector: OtlpCollector, status: int) -> None:
    collector.answer = status
    one = sender(Given(ONE), collector.url)
    assert one.turn() == 1
    collector.answer = 200
    one.turn()
    assert (one.sent, one.refused, collector.requests) == (1, 0, [1, 1])


def test_an_answer_that_never_ends_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """An octet now and then keeps each step alive; the exporter's main loop ends the whole."""
    monkeypatch.setattr(tracing, "LONGEST_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                for octet in b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 10_000:
                    try:
                        connection.send(bytes((octet,)))
                    except OSError:
                        return
                    time.sleep(0.05)

        threading.Thread(target=drip, daemon=True).start()
        one = sender(Given(ONE), f"http://127.0.0.1:{server.getsockname()[1]}/")
        worker = threading.Thread(target=one.turn, daemon=True)
        worker.start()
        while worker.is_alive():
            one.step(time.monotonic())
            time.sleep(0.01)
    assert one._began == 0


text = st.none() | st.binary(max_size=20)
link = st.none() | st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**62), st.integers(0, 4), text)
times = st.integers(0, 2**62)
passed = st.tuples(
    st.binary(min_size=16, max_size=16), st.binary(min_size=8, max_size=8), times, times, times, text, link, link,
    st.integers(0, 7), text, st.integers(0, 255), st.integers(0, 2**62), st.none() | st.integers(0, 2**32 - 1),
    st.booleans(),
)  # fmt: skip


@given(st.lists(passed, max_size=5))
def test_whatever_a_message_says_makes_a_request(given: list[tuple[object, ...]]) -> None:
    """Names are any octets: a span has them as text."""
    every = [spans.Passed(*one) for one in given]  # type: ignore[arg-type]  # the strategy's types are mixed
    octets = spans.request(every, "R", "1", "host", 10**18)
    (resource,) = ExportTraceServiceRequest.FromString(octets).resource_spans
    found = resource.scope_spans[0].spans
    assert [(span.trace_id, span.parent_span_id) for span in found] == [one[:2] for one in given]
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in found)


@given(st.binary(max_size=100))
def test_any_answer_is_read(answer: bytes) -> None:
    assert spans.refused(answer) >= 0


# ---- the reader ----


def test_a_reader_knows_what_it_has_missed() -> None:
    """The core overwrites the oldest records; those of other messages are none."""
    bed = Bed()
    bed.attach()
    bed.telemetry.record(0)
    bed.telemetry.trace((1 << 64) - 1, flagged=True)
    reader = SpanReader(bed.flow)
    bed.pass_on(3)
    assert reader.waiting() == 0
    record = TELEMETRY_BYTES - SPAN_ROOM * 256
    made = SPAN_ROOM + 5
    for number in range(1, made + 1):
        at = record + (number - 1) % SPAN_ROOM * 256
        bed.flow[at : at + 8] = number.to_bytes(8, "little")
    bed.flow[256:264] = made.to_bytes(8, "little")
    assert len(reader.read(SPAN_ROOM + 10)) == SPAN_ROOM
    assert reader.lost == 5
    bed.flow[256:264] = bytes(8)  # nonsense
    assert reader.read(10) == []
