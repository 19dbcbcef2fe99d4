"""Metrics, health and the page of a real router, and what becomes of them when things go wrong."""

import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from proton import Delivery, Message

from tests.support.clients.web import get, series, site
from tests.support.peer import Net
from tests.support.running import LONG, Configuration, RunningRouter, free_port, roles, until

HTTP = "listener {\n host: 127.0.0.1\n port: 0\n http: yes\n %s\n}\n"


NOWHERE = "connector {\n name: nowhere\n host: 127.0.0.1\n port: 1\n role: route-container\n}\n"


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return Configuration(
        router="workers: 2",
        sections=HTTP % "" + HTTP % "metrics: no\n healthz: no" + NOWHERE,
        expected="connector nowhere: ",
    )


def exporter(router: RunningRouter) -> psutil.Process | None:
    return roles(router.process.pid).get("exporter")


def test_every_path_is_served(router: RunningRouter) -> None:
    """As the documentation says, on the listener that has not switched them off."""
    for path, kind, content in [
        ("/", "text/html", "<title>routerd</title>"),
        ("/status.json", "application/json", router.id),
        ("/metrics", "text/plain; version=0.0.4", f'routerd_router_info{{id="{router.id}"'),
        ("/healthz", "text/plain", "live"),
        ("/readyz", "text/plain", "ready"),
    ]:
        got = get(site(router) + path)
        assert (got.status, got.type.startswith(kind)) == (200, True), (path, got)
        assert content in got.body
    assert get(site(router) + "/nothing").status == 404
    paths = ("/", "/metrics", "/healthz", "/readyz")
    assert [get(site(router, 1) + path).status for path in paths] == [200, 404, 404, 404]


def test_an_attempt_of_a_connector_is_no_connection_that_failed(router: RunningRouter) -> None:
    """It counts for the connector, whose row says why; the alarm is about those that came in."""

    def failures() -> float:
        shown = series(get(site(router) + "/metrics").body)
        return shown.get('routerd_connector_failures_total{connector="nowhere"}', 0)

    before, failed = failures(), router.counted("connections_failed")
    until(lambda: failures() >= before + 2, "two more attempts")
    assert router.counted("connections_failed") == failed


def test_openmetrics_by_accept(router: RunningRouter) -> None:
    """What a Prometheus asks for; the strict parser takes it."""
    got = get(site(router) + "/metrics", Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert got.type.startswith("application/openmetrics-text; version=1.0.0")
    assert len(list(text_string_to_metric_families(got.body))) > 40


def test_what_python_takes_from_the_core_is_counted(router: RunningRouter, net: Net) -> None:
    """A receiver is entered by Python; messages need none."""

    def counted() -> tuple[float, float]:
        shown = series(get(site(router) + "/metrics").body)
        return shown["routerd_core_python_seconds_count"], shown["routerd_core_python_seconds_sum"]

    turns, seconds = counted()
    for number in range(20):
        pass_one(net, f"python.{number}")
    until(lambda: counted()[0] >= turns + 20, "times of Python")
    assert 0 < counted()[1] - seconds < LONG


def test_a_connector_that_fails_says_why(router: RunningRouter) -> None:
    """Nobody listens where it connects to."""

    def failures() -> float:
        return series(get(site(router) + "/metrics").body).get(
            'routerd_connector_failures_total{connector="nowhere"}', 0
        )

    until(lambda: failures() > 0, "an attempt")
    said = get(site(router) + "/metrics").body
    assert series(said)['routerd_connector_up{connector="nowhere"}'] == 0
    assert 'routerd_connector_error_info{connector="nowhere",error="Connection to ' in said


def pass_one(net: Net, address: str, number: int = 1) -> None:
    """Messages through the router, accepted."""
    receiving, sending = net.peer(), net.peer()
    receiver, sender = receiving.receiver(address, credit=number), sending.ready_sender(address)
    sent = [net.send(sender, Message(body=b"x" * 100)) for _ in range(number)]
    for arrived in receiving.take(receiver, number):
        arrived.settle()
    assert net.settled(*sent) == [Delivery.ACCEPTED] * number


def test_messages_are_counted(router: RunningRouter, net: Net) -> None:
    """By outcome, by address, by size and by time; the page shows the address and its clients."""
    before = series(get(site(router) + "/metrics").body)
    pass_one(net, "counted", 10)

    def grown(name: str) -> float:
        return series(get(site(router) + "/metrics").body).get(name, 0) - before.get(name, 0)

    for name in (
        'routerd_settled_deliveries_total{outcome="accepted",process="core"}',
        "qdr_accepted_deliveries_total",
        "routerd_delivery_latency_seconds_count",
        'routerd_message_size_bytes_bucket{le="255"}',
        'routerd_address_deliveries_total{address="counted"}',
    ):
        until(lambda name=name: grown(name) == 10, name)  # type: ignore[misc]  # mypy has no lambda defaults
    assert grown('routerd_message_size_bytes_bucket{le="63"}') == 0

    def status() -> Any:
        return json.loads(get(site(router) + "/status.json").body)

    assert "counted" in [row["address"] for row in status()["addresses"]]
    until(lambda: len(status()["connections"]) == status()["openConnections"] == 2, "two connections")
    assert "routerd_connection_info{" in get(site(router) + "/metrics?connections=1").body


def test_a_flood_of_clients_is_bounded(router: RunningRouter, net: Net) -> None:
    """Silent ones, half requests, garbage, three times as many as there is room for: others are answered."""
    host, port = site(router).removeprefix("http://").split(":")
    with ExitStack() as stack:
        for says in (b"", b"GET /metrics HT", b"\x16\x03\x01garbage\r\n\r\n") * 128:
            client = stack.enter_context(socket.create_connection((host, int(port)), timeout=LONG))
            with suppress(OSError):  # it may have been dropped already
                client.sendall(says)
        pass_one(net, "calm")
        assert get(site(router) + "/healthz").status == 200
        process = exporter(router)
        assert process is not None
        assert process.num_fds() < 200
    until(lambda: refused(router) > 0, "the count of those that were dropped")
    until(lambda: process.num_fds() < 30, "end of the clients")


def test_clients_that_send_an_octet_a_second(router: RunningRouter, net: Net) -> None:
    """More than there is room for: messages pass, scrapes are answered, and it is counted and told who goes.

    It takes the five seconds that a client has for its request."""
    host, port = site(router).removeprefix("http://").split(":")
    receiving, sending = net.peer(), net.peer()
    receiver, sender = receiving.receiver("unhurt", credit=100), sending.ready_sender("unhurt")
    before = refused_for_being_slow(router)
    with ExitStack() as stack:
        crowd = [stack.enter_context(socket.create_connection((host, int(port)), 20)) for _ in range(140)]
        names = {"{}:{}".format(*client.getsockname()) for client in crowd}
        due = time.monotonic()

        def dropped() -> bool:
            nonlocal due
            if time.monotonic() >= due:
                due += 1.0
                for client in crowd:
                    with suppress(OSError):  # its time is over
                        client.send(b"G")
            sent = net.send(sender, Message(body=b"x"))
            receiving.take(receiver)[0].settle()
            assert net.settled(sent) == [Delivery.ACCEPTED]
            receiver.flow(1)
            return refused_for_being_slow(router) > before

        net.until(dropped, "the first that is dropped for being slow")
    until(lambda: names & set(re.findall(r"HTTP client (\S+) refused: ", router.log)), "the line in the log")


def refused_for_being_slow(router: RunningRouter) -> float:
    return series(get(site(router) + "/metrics").body)['routerd_http_refused_total{reason="slow"}']


def refused(router: RunningRouter) -> float:
    """Requests that were not answered, whatever for."""
    found = series(get(site(router) + "/metrics").body)
    return sum(count for name, count in found.items() if name.startswith("routerd_http_refused_total"))


def test_it_is_small(router: RunningRouter) -> None:
    """Whoever switches it on pays little."""
    process = exporter(router)
    assert process is not None
    get(site(router) + "/metrics")
    assert process.memory_full_info().pss < 25 * 1024 * 1024


@pytest.fixture
def hurt(tmp_path: Path, configuration: Configuration) -> Iterator[RunningRouter]:
    """A router of its own for tests that leave complaints in its log."""
    router = RunningRouter(tmp_path, configuration)
    yield router
    router.end()


def pids(router: RunningRouter) -> dict[str, int]:
    return {p["name"]: p["pid"] for p in json.loads(get(site(router) + "/status.json").body)["processes"]}


def test_a_killed_exporter_is_started_again_and_nobody_notices(hurt: RunningRouter) -> None:
    """Its listener takes connections all the time, AMQP clients keep theirs, the other processes live on."""
    with Net(hurt.address) as net:
        peer = net.peer()
        before, first = pids(hurt), exporter(hurt)
        assert first is not None
        first.kill()
        assert get(site(hurt) + "/healthz").body == "live\n"  # waited in the listening socket's queue
        second = exporter(hurt)
        assert second is not None
        assert second.pid != first.pid
        assert pids(hurt) == before
        peer.round_trip()
        pass_one(net, "unmoved")
    assert "exporter died" in hurt.log


def test_a_killed_worker_is_counted(hurt: RunningRouter) -> None:
    """Its successor goes on with its counters; the restart is told."""
    with Net(hurt.address) as net:
        pass_one(net, "before")
    name = "routerd_process_restarts_total"
    os.kill(pids(hurt)["worker-0"], signal.SIGKILL)
    mine = f'{name}{{process="worker-0"}}'
    until(lambda: series(get(site(hurt) + "/metrics").body).get(mine) == 1, "restart")
    assert get(site(hurt) + "/readyz").status == 200
    found = series(get(site(hurt) + "/metrics").body)
    assert found[f'{name}{{process="worker-1"}}'] == 0
    assert sum(value for key, value in found.items() if key.startswith("routerd_ingress_deliveries_total")) == 1


def test_a_killed_core_is_counted_and_its_successor_is_seen(hurt: RunningRouter) -> None:
    """Restart, readiness, and what the new core shows of addresses."""
    os.kill(pids(hurt)["core"], signal.SIGKILL)
    name = 'routerd_process_restarts_total{process="core"}'
    until(lambda: series(get(site(hurt) + "/metrics").body).get(name) == 1, "restart")
    until(lambda: get(site(hurt) + "/readyz").status == 200, "readiness")
    with Net(hurt.address) as net:
        pass_one(net, "after", 3)
        shown = 'routerd_address_deliveries_total{address="after"}'
        until(lambda: series(get(site(hurt) + "/metrics").body).get(shown) == 3, "the address's row")


def test_a_hung_worker_is_not_healthy(hurt: RunningRouter) -> None:
    """Until it is replaced; the router is ready all the time, because another worker serves."""
    os.kill(pids(hurt)["worker-1"], signal.SIGSTOP)
    until(lambda: "worker 1 died" in hurt.log, "its death")
    assert get(site(hurt) + "/readyz").status == 200
    until(lambda: get(site(hurt) + "/healthz").status == 200, "its successor")


def test_a_rolling_restart_leaves_the_router_ready(hurt: RunningRouter) -> None:
    """Whoever is being replaced: a load balancer does not take the router out."""
    seen = set()
    os.kill(hurt.process.pid, signal.SIGUSR1)
    while "Rolling restart: all processes are new" not in hurt.log:
        answer = get(site(hurt) + "/readyz")
        seen.add((answer.status, answer.body))
    assert seen == {(200, "ready\n")}


def test_http_can_be_switched_on_and_off_while_the_router_runs(tmp_path: Path) -> None:
    """A reload starts an exporter when a listener needs it, gives it others, and takes them away."""
    ports = [free_port(), free_port()]
    web = "listener {\n name: web\n host: 127.0.0.1\n port: %d\n http: yes\n}\n"
    router = RunningRouter(tmp_path, Configuration())
    config = tmp_path / "router.conf"
    without = config.read_text()

    def serves(port: int) -> bool:
        with suppress(OSError):
            return get(f"http://127.0.0.1:{port}/healthz").status == 200
        return False

    try:
        assert exporter(router) is None
        for wanted in ports:
            config.write_text(without + web % wanted)
            router.process.send_signal(signal.SIGHUP)
            until(lambda port=wanted: serves(port), "the listener")  # type: ignore[misc]  # mypy has no lambda defaults
            until(lambda port=wanted: [one for one in ports if serves(one)] == [port], "no other")  # type: ignore[misc]  # the same
        config.write_text(without)
        router.process.send_signal(signal.SIGHUP)
        until(lambda: not serves(ports[1]), "its end")
        router.stop()
    finally:
        router.kill()
