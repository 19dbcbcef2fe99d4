"""Tracing: a span for each hop of a sampled trace, whatever the collector does."""

import os
import random
import re
import secrets
import signal
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Message, symbol

from tests.support.clients.web import get, series
from tests.support.peer import ACCEPTED, REJECTED, RELEASED, Net
from tests.support.routers.network import NetworkRouter
from tests.support.running import Configuration, RunningRouter, roles, until
from tests.support.servers.otlp_collector import OtlpCollector, hang_up

SPAN = "b7ad6b7169203331"
LISTENER = "name: clients\n host: 127.0.0.1\n port: 0"
HTTP = "listener {\n name: web\n host: 127.0.0.1\n port: 0\n http: yes\n}\n"
MULTICAST = "address {\n prefix: mc\n distribution: multicast\n}\n"


def new_trace(low: int | None = None) -> str:
    """A trace-id of the test's own; ``low``: its last eight octets."""
    return f"{random.getrandbits(64) | 1 << 63:016x}{random.getrandbits(64) | 1 if low is None else low:016x}"


def traced(trace: str, flags: str = "01", body: object = "x") -> Message:
    return Message(body=body, properties={"traceparent": f"00-{trace}-{SPAN}-{flags}"})


def tracing(collector: OtlpCollector, more: str = "") -> str:
    return f"tracing {{\n endpoint: {collector.url}\n {more}\n}}\n"


@pytest.fixture(scope="module")
def collector() -> Iterator[OtlpCollector]:
    with OtlpCollector() as collector:
        yield collector


class Traced(RunningRouter):
    """A router that sends spans to a collector."""

    def __init__(self, folder: Path, collector: OtlpCollector) -> None:
        self.folder = folder
        self.more = HTTP + MULTICAST
        expected = r"takes no spans|exporter died"
        section = self.more + tracing(collector)
        super().__init__(folder, Configuration(listener=LISTENER, sections=section, expected=expected))

    def reload(self, sections: str, says: str) -> None:
        text = Configuration(listener=LISTENER, sections=self.more + sections).text(self.id)
        (self.folder / "router.conf").write_text(text)
        before = len(self.log)
        os.kill(self.process.pid, signal.SIGHUP)
        until(lambda: says in self.log[before:], says)

    def spans(self, result: str) -> float:
        url = next(word for word in self.output.split() if word.startswith("http://"))
        return series(get(url.rstrip("/") + "/metrics").body)[f'routerd_trace_spans_total{{result="{result}"}}']


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory, collector: OtlpCollector) -> Iterator[Traced]:
    router = Traced(tmp_path_factory.mktemp("traced"), collector)
    yield router
    router.stop()


def passed(router: RunningRouter, address: str, *messages: Message, state: int = ACCEPTED, receivers: int = 1) -> None:
    """Messages go to each receiver, which settles them so."""
    with Net(router.address) as net:
        peer = net.peer()
        links = [peer.receiver(address, 100) for _ in range(receivers)]
        sender = net.peer().ready_sender(address)
        for message in messages:
            sent = net.send(sender, message)
            for link in links:
                (arrived,) = peer.take(link)
                arrived.settle(state)
            net.settled(sent)


def test_a_hop_is_a_span(router: Traced, collector: OtlpCollector) -> None:
    """Its parent is the sender's span, its times are the delivery's, and its attributes say where it went."""
    trace, before = new_trace(), time.time_ns()
    passed(router, "a.hop", traced(trace, body="twelve octets"))
    ((span, said, of),) = collector.of(trace, 1)
    assert span.parent_span_id.hex() == SPAN
    assert len(span.span_id) == 8
    assert span.span_id.hex() not in (SPAN, "0" * 16)
    # The core's clock stands still within a turn, and a worker may send a message in the turn in which it came.
    assert before - 10**9 < span.start_time_unix_nano <= span.events[0].time_unix_nano <= span.end_time_unix_nano
    assert span.end_time_unix_nano < time.time_ns() + 10**9
    assert (span.name, span.events[0].name, span.status.code) == ("forward a.hop", "sent", 0)
    assert said["messaging.system"] == "amqp"
    assert said["messaging.destination.name"] == "a.hop"
    assert (said["messaging.operation.name"], said["messaging.operation.type"]) == ("forward", "send")
    assert 0 < said["messaging.message.body.size"] < said["messaging.message.envelope.size"]
    assert said["routerd.outcome"] == "accepted"
    assert said["routerd.ingress.kind"] == said["routerd.egress.kind"] == "normal"
    assert said["routerd.ingress.connection"] != said["routerd.egress.connection"]
    assert said["routerd.ingress.container"] != said["routerd.egress.container"]
    assert (of["service.name"], of["service.instance.id"]) == ("routerd", router.id)


def test_message_annotations_are_read_too(router: Traced, collector: OtlpCollector) -> None:
    trace = new_trace()
    passed(router, "noted", Message(annotations={symbol("traceparent"): f"00-{trace}-{SPAN}-01"}, body="x"))
    assert len(collector.of(trace, 1)) == 1


@pytest.mark.parametrize(("state", "outcome", "code"), [(REJECTED, "rejected", 2), (RELEASED, "released", 0)])
def test_outcomes(router: Traced, collector: OtlpCollector, state: int, outcome: str, code: int) -> None:
    trace = new_trace()
    passed(router, f"an.{outcome}", traced(trace), state=state)
    ((span, said, _),) = collector.of(trace, 1)
    assert (said["routerd.outcome"], span.status.code) == (outcome, code)
    assert ("error.type" in said) == (code == 2)


def test_each_copy_of_a_multicast_message_is_a_span(router: Traced, collector: OtlpCollector) -> None:
    trace = new_trace()
    passed(router, "mc.a", traced(trace), receivers=3)
    spans = collector.of(trace, 3)
    assert len({span.span_id for span, *_ in spans}) == 3
    assert len({said["routerd.egress.link"] for _, said, _ in spans}) == 3


def test_presettled_and_undeliverable(router: Traced, collector: OtlpCollector) -> None:
    sent, lost = new_trace(), new_trace()
    with Net(router.address) as net:
        peer = net.peer()
        receiver = peer.receiver("settled", 10)
        net.send(net.peer().ready_sender("settled"), traced(sent), settled=True)
        peer.take(receiver)
        assert net.settled(net.send(net.peer().ready_sender(None), Message(
            address="nowhere", body="x", properties={"traceparent": f"00-{lost}-{SPAN}-01"}
        ))) == [RELEASED]  # fmt: skip
    assert collector.of(sent, 1)[0][1]["routerd.outcome"] == "presettled"
    ((span, said, _),) = collector.of(lost, 1)
    assert (said["routerd.outcome"], span.status.code) == ("undeliverable", 2)


def test_what_is_no_sampled_trace_makes_no_span(router: Traced, collector: OtlpCollector) -> None:
    """The flag is not set, or the text is none of W3C's: a marker behind them all is the only span."""
    last, trace = new_trace(), new_trace()
    texts = [
        f"00-{trace}-{SPAN}-00", f"00-{trace}-{SPAN}-0g", f"00-{trace.upper()}-{SPAN}-01", f"ff-{trace}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01", f"00-{trace}-{'0' * 16}-01", f"00-{trace}-{SPAN}-1", "", "\0" * 55,
        f"00_{trace}_{SPAN}_01",
    ]  # fmt: skip
    before = len(collector.spans)
    strange = [Message(body="x", properties={"traceparent": text}) for text in texts]
    strange += [Message(body="x", properties={"traceparent": 7, "tracestate": None}), Message(body="x")]
    passed(router, "strange", *strange, traced(last))
    collector.of(last, 1)
    assert len(collector.spans) == before + 1


W3C = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)


def meant(text: str) -> tuple[str, str] | None:
    """Trace and parent of a sampled traceparent, by W3C Trace Context level 1, 3.2 and 4.3."""
    found = W3C.fullmatch(text)
    if not found or (found[1] == "00" and found[5] is not None) or not int(found[4], 16) & 1:
        return None
    return found[2], found[3]


def some_hex(size: int) -> st.SearchStrategy[str]:
    digits = st.text("0123456789abcdef", min_size=size, max_size=size)
    return st.one_of(
        digits, digits, digits, digits, digits.map(str.upper), st.just("0" * size), digits.map(lambda text: text[1:]),
        digits.map(lambda text: "0" + text), digits.map(lambda text: text[1:] + "g"),
    )  # fmt: skip


PARENTS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["00", "00", "00", "01", "fe", "ff", "FF", "0", "0g"]),
        st.sampled_from(["-", "-", "-", "-", "_"]),
        some_hex(32), st.just("-"), some_hex(16), st.just("-"),
        st.sampled_from(["01", "01", "03", "00", "1", "0A", "g1"]),
        st.sampled_from(["", "", "", "-", "-more", "more", " "]),
    ),
) | st.text(max_size=60)  # fmt: skip


@settings(max_examples=8)
@given(st.lists(st.tuples(PARENTS, st.text(max_size=20)), min_size=20, max_size=60))
def test_any_text_is_what_w3c_says(router: Traced, collector: OtlpCollector, contexts: list[tuple[str, str]]) -> None:
    """A span for each valid and sampled traceparent, and for no other; all arrive as they were sent."""
    before, last = len(collector.spans), secrets.token_hex(16)  # hypothesis seeds `random`
    contexts = [*contexts, (f"00-{last}-{SPAN}-01", "")]
    with Net(router.address) as net:
        peer = net.peer()
        receiver, sender = peer.receiver("any", 100), net.peer().ready_sender("any")
        for parent, state in contexts:
            sent = net.send(sender, Message(body="x", properties={"traceparent": parent, "tracestate": state}))
            (arrived,) = peer.take(receiver)
            assert arrived.message.properties == {"traceparent": parent, "tracestate": state}
            arrived.settle(ACCEPTED)
            net.settled(sent)
    collector.of(last, 1)
    found = [(span.trace_id.hex(), span.parent_span_id.hex()) for span, *_ in collector.spans[before:]]
    assert sorted(found) == sorted(filter(None, map(meant, (parent for parent, _ in contexts))))


def test_sampling_follows_the_trace_id_and_a_reload(router: Traced, collector: OtlpCollector) -> None:
    """One of 4: the low octets decide, as OpenTelemetry's TraceIdRatioBased does. 0: none; again 1: all."""
    edge = (1 << 64) // 4
    router.reload(tracing(collector, "sampling: 4\n sampledOnly: no"), "tracing changed")
    inside, outside, unflagged = new_trace(edge - 1), new_trace(edge), new_trace(1)
    passed(router, "ratio", traced(outside), traced(unflagged, "00"), traced(inside))
    collector.of(inside, 1)
    collector.of(unflagged, 1)
    router.reload(tracing(collector, "sampling: 0"), "tracing changed")
    passed(router, "none", traced(new_trace(0)))
    router.reload("", "tracing removed")
    passed(router, "off", traced(new := new_trace(0)))
    router.reload(tracing(collector), "tracing added")
    passed(router, "on", traced(last := new_trace((1 << 64) - 1)))
    collector.of(last, 1)
    assert not [one for one in collector.spans if one[0].trace_id.hex() in (outside, new)]


def test_a_collector_that_is_away_costs_nothing(router: Traced, collector: OtlpCollector) -> None:
    """Messages pass while it hangs up; it gets what waits when it is back, and the log has a line for each change."""
    collector.answer = hang_up
    before, sent = router.log.count("takes no spans"), router.spans("sent")
    trace = new_trace()
    passed(router, "away", *[traced(trace) for _ in range(100)])
    until(lambda: router.log.count("takes no spans") == before + 1, "warning")
    collector.answer = 200
    collector.of(trace, 100)
    until(lambda: router.spans("sent") >= sent + 100, "count")
    assert router.log.count("takes no spans") == before + 1
    until(lambda: "takes spans again" in router.log, "all is well")


@pytest.mark.parametrize("answer", [500, 400, 301])
def test_a_collector_that_refuses_gets_no_span_twice(router: Traced, collector: OtlpCollector, answer: int) -> None:
    collector.answer = answer
    before, asked = router.spans("refused"), len(collector.requests)
    passed(router, "refused", *[traced(new_trace()) for _ in range(5)])
    until(lambda: router.spans("refused") == before + 5, "count")
    assert sum(collector.requests[asked:]) == 5
    collector.answer = 200


def test_garbage_is_refused(router: Traced, collector: OtlpCollector) -> None:
    def garbage(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"\xff\0garbage\r\n" * 1000)

    collector.answer = garbage
    before = router.spans("refused")
    passed(router, "garbage", traced(new_trace()))
    until(lambda: router.spans("refused") > before, "count")
    collector.answer = 200


def test_an_exporter_that_dies_is_replaced(router: Traced, collector: OtlpCollector) -> None:
    roles(router.process.pid)["exporter"].kill()
    until(lambda: router.log.count("exporter serves") >= 2, "the next exporter")
    trace = new_trace()
    passed(router, "next", traced(trace))
    collector.of(trace, 1)


def test_two_routers_are_two_spans_of_one_parent(tmp_path: Path, collector: OtlpCollector) -> None:
    """The message is passed on as it came, so the sender's span is the parent of both."""
    routers: list[NetworkRouter] = []
    try:
        for name in "AB":
            more = tracing(collector)
            routers.append(NetworkRouter(tmp_path / name, *[one.routers_url for one in routers], more=more))
        routers[0].knows(routers[1].id)
        trace = new_trace()
        with Net(routers[0].address) as net:
            peer = net.peer(routers[1].address)
            receiver = peer.receiver("far", 1)
            sent = net.send(net.peer().ready_sender("far"), traced(trace))
            (arrived,) = peer.take(receiver)
            assert arrived.message.properties == {"traceparent": f"00-{trace}-{SPAN}-01"}
            arrived.settle()
            net.settled(sent)
        first, second = collector.of(trace, 2)
        assert {first[0].parent_span_id.hex(), second[0].parent_span_id.hex()} == {SPAN}
        assert [one[2]["service.instance.id"] for one in (first, second)] == [one.id for one in routers]
        assert [one[1]["routerd.hops"] for one in (first, second)] == [0, 1]
        assert first[1]["routerd.egress.kind"] == second[1]["routerd.ingress.kind"] == "inter_router"
        assert first[0].end_time_unix_nano >= second[0].events[0].time_unix_nano
    finally:
        for router in routers:
            router.kill()
