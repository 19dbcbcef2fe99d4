"""The load clients against each other and against the plain Python router, with few messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.build import build_wire
from bench.clients import Client, ClientSpec, transfer
from bench.large import Large
from bench.line import Line
from bench.results import ClientResult
from bench.scenarios import PingPong, Transfer
from bench.targets import BASELINE, DIRECT, ROUTERD, BenchError, Running, Target, free_port, started

COUNT = 500


@pytest.fixture(scope="module", autouse=True)
def _wire() -> None:
    build_wire()


def exchange(
    sender_kind: str, receiver_kind: str, *, sent_size: int = 100, size: int = 100, presettled: bool = False
) -> tuple[ClientResult, ClientResult]:
    """What a sender and a receiver without a router in between say."""
    receiver = ClientSpec(
        mode="recv", port=free_port(), address="q", count=COUNT, size=size, presettled=presettled, listen=True
    )
    sender = ClientSpec(
        mode="send", port=receiver.port, address="q", count=COUNT, size=sent_size, presettled=presettled
    )
    with Client(receiver, receiver_kind) as taker:
        taker.await_ready()
        with Client(sender, sender_kind) as giver:
            giver.await_ready()
            giver.go()
            results = giver.result(), taker.result()
            giver.finish()
            taker.finish()
    return results


@pytest.mark.parametrize("kinds", [("proton", "proton"), ("proton", "wire"), ("wire", "proton"), ("wire", "wire")])
@pytest.mark.parametrize("presettled", [False, True])
def test_clients_understand_each_other(kinds: tuple[str, str], presettled: bool) -> None:
    """Everything sent arrives, is accepted, and has a latency."""
    sent, received = exchange(*kinds, presettled=presettled)
    assert (sent.n, sent.bad) == (COUNT, 0)
    assert (received.n, received.bad) == (COUNT, 0)
    assert received.latency_us is not None
    assert 0 < received.latency_us.p50 <= received.latency_us.p99 <= received.latency_us.p999
    assert sent.cpu_us_per_message > 0
    assert received.cpu_us_per_message > 0


@pytest.mark.parametrize("kinds", [("proton", "wire"), ("wire", "proton")])
@pytest.mark.parametrize("size", [0, 7, 8, 70_000])
def test_any_size_arrives_whole(kinds: tuple[str, str], size: int) -> None:
    """From no body at all to several frames; a body without room for a stamp has no latency."""
    sent, received = exchange(*kinds, sent_size=size, size=size)
    assert (sent.n, sent.bad, received.n, received.bad) == (COUNT, 0, COUNT, 0)
    assert (received.latency_us is not None) == (size >= 8)


@pytest.mark.parametrize("kinds", [("wire", "proton"), ("proton", "wire")])
def test_a_short_message_is_noticed(kinds: tuple[str, str]) -> None:
    """A receiver that expects more counts each message as bad."""
    _, received = exchange(*kinds, sent_size=50, size=1000)
    assert received.bad == COUNT


@pytest.mark.parametrize("kind", ["proton", "wire"])
def test_one_in_flight(kind: str) -> None:
    """The peer sends each back; there is one sample per message."""
    with started(DIRECT) as running:
        run = PingPong(count=200).run(running, kind, 1.0)
    assert (run.messages, run.bad) == (200, 0)
    assert run.latency_us is not None


@pytest.mark.parametrize("kind", ["proton", "wire"])
def test_the_ends_of_a_line_may_be_two_ports(kind: str) -> None:
    """Here both are of one router, so there is nothing that a further one costs; everything is measured."""
    with started(BASELINE) as running:
        line = replace(running, beyond=(running,))
        run = Line(count=100, pings=50).run(line, kind, 1.0)
        with pytest.raises(BenchError, match="no line"):
            Line(count=100, pings=50).run(running, kind, 1.0)
    assert (run.messages, run.bad) == (100, 0)
    assert run.extra.keys() == {"one_router_us", "hop_us", "one_router_p50", "hop_p50"}


def test_the_receiver_of_pingpong_is_at_the_far_port() -> None:
    with started(BASELINE) as running:
        spec = ClientSpec(mode="pingpong", port=running.port, far=free_port(), address="q", count=1)
        with pytest.raises(BenchError, match="refused"):
            transfer(running, [], [spec], kind="proton")


@pytest.mark.parametrize("kind", ["proton", "wire"])
def test_nobody_listens(kind: str) -> None:
    """The error names what happened."""
    nowhere = ClientSpec(mode="send", port=free_port(), address="q", count=1)
    with pytest.raises(BenchError, match="refused"):
        transfer(Running(nowhere.port), [], [nowhere], kind=kind)


@pytest.mark.parametrize("presettled", [False, True])
def test_python_router_settles_through(presettled: bool) -> None:
    """Two pairs on two addresses; the router's one process has CPU and memory figures."""
    with started(BASELINE) as running:
        run = Transfer(count=200, pairs=2, presettled=presettled).run(running, "proton", 1.0)
    assert (run.messages, run.bad) == (400, 0)
    assert run.relative_cost is not None
    assert run.total_memory is not None
    assert run.relative_cost > 1


def test_a_large_message_has_a_sender_in_python() -> None:
    """It arrives whole; the sender's CPU and time are told."""
    with started(BASELINE) as running:
        run = Large(size=500_000, smaller=100_000).run(running, "python", 1.0)
    assert (run.messages, run.bad) == (1, 0)
    assert run.extra.keys() == {"large_s", "sender_cpu_s", "sender_growth"}
    nowhere = Running(free_port(), running.process)
    with pytest.raises(BenchError, match="refused"):
        Large(size=5, smaller=1).run(nowhere, "python", 1.0)


def test_with_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a router with a certificate; without one there is nothing to measure."""
    monkeypatch.setattr("bench.targets.REST_S", 0.0)
    monkeypatch.setattr("bench.targets.RESERVES_S", 0.0)
    measured = Transfer(count=500, tls=True)
    with started(ROUTERD, tls=True) as running:
        run = measured.run(running, "proton", 1.0)
        with pytest.raises(BenchError, match=r"closed|lost"):
            Transfer(count=1).run(replace(running, port=running.tls_port), "proton", 1.0)
    assert (run.messages, run.bad) == (500, 0)
    with started(BASELINE) as running, pytest.raises(BenchError, match="no listener with TLS"):
        measured.run(running, "proton", 1.0)
    with pytest.raises(BenchError, match="takes no configuration"), started(BASELINE, tls=True):
        pass


def test_a_client_that_has_ended_says_why() -> None:
    """Even if that is noticed only when it is told to go on."""
    with Client(ClientSpec(mode="send", port=free_port(), address="q", count=1), "wire") as client:
        client._process.wait()
        with pytest.raises(BenchError, match="refused"):
            client.go()


def test_router_that_does_not_start_says_why() -> None:
    """Its last words are in the error."""
    with (
        pytest.raises(BenchError, match="status 3 at its start: sorry"),
        started(Target("broken", ("/bin/sh", "-c", "echo sorry; exit 3"))),
    ):
        pass
    with pytest.raises(BenchError, match="does not start"), started(Target("none", ("/no/such/router",))):
        pass
