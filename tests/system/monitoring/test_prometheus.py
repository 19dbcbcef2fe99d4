"""What a real Prometheus and its tool say of the exporter, the dashboard and the alert rules."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import Message

from docs.dashboards import DASHBOARDS, HERE
from tests.support.certificates import Authority
from tests.support.clients.web import get, site
from tests.support.peer import Net
from tests.support.running import Configuration, RunningRouter, until
from tests.support.servers.prometheus import Prometheus, dashboard_queries, scraping, tool

DOCS = Path(__file__).parents[3] / "docs"
TLS = "sslProfile {\n name: p\n certFile: %s\n privateKeyFile: %s\n}\n"
HTTP = "listener {\n host: 127.0.0.1\n port: 0\n http: yes\n}\n"


@pytest.fixture(scope="module")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    own = Authority(tmp_path_factory.mktemp("tls")).issue("own", "/CN=localhost")
    return Configuration(router="workers: 2", sections=HTTP + TLS % (own.certificate, own.key))


def promtool(*arguments: str | Path, given: str = "") -> str:
    """What it says, on both outputs; a failure of it is one of the test."""
    done = subprocess.run(
        [tool("promtool"), *arguments], input=given, capture_output=True, text=True, check=False, cwd=DOCS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def traffic(net: Net, address: str, number: int) -> None:
    """Messages that are accepted, and one that is presettled and has nobody to go to."""
    receiving, sending = net.peer(), net.peer()
    receiver, sender = receiving.receiver(address, credit=number), sending.ready_sender(address)
    sent = [net.send(sender, Message(body=b"x" * 100)) for _ in range(number)]
    for arrived in receiving.take(receiver, number):
        arrived.settle()
    net.settled(*sent)
    net.send(sending.ready_sender(None), Message(address="nobody", body=b"x"), settled=True)
    sending.round_trip()


def test_promtool_has_nothing_to_say_about_the_metrics(router: RunningRouter, net: Net) -> None:
    """`promtool check metrics` is silent, with the newest connections, too."""
    traffic(net, "linted", 3)
    for path in ("/metrics", "/metrics?connections=1"):
        assert promtool("check", "metrics", given=get(site(router) + path).body) == ""


def test_alert_rules_are_valid_and_do_what_they_say() -> None:
    """`promtool check rules` and `promtool test rules`."""
    assert "SUCCESS" in promtool("check", "rules", DOCS / "alerts.yml")
    assert "SUCCESS" in promtool("test", "rules", DOCS / "alerts-test.yml")


@pytest.fixture(scope="module")
def server(router: RunningRouter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the module's router."""
    target = site(router).removeprefix("http://")
    with scraping(tmp_path_factory.mktemp("prometheus"), target, DOCS / "alerts.yml") as server:
        yield server


def test_prometheus_scrapes_it(router: RunningRouter, net: Net, server: Prometheus) -> None:
    """The target is up, without a complaint, and its numbers are those of the router."""
    traffic(net, "scraped", 7)
    until(lambda: server.value('routerd_address_deliveries_total{address="scraped"}') == 7, "its address")
    until(lambda: server.value('sum(routerd_settled_deliveries_total{outcome="accepted"})') >= 7, "its deliveries")
    assert server.value("up") == 1
    assert server.value("routerd_build_info") == 1
    assert server.value("min(routerd_process_up)") == 1
    assert server.value("scrape_samples_scraped") > 100
    (target,) = server.targets()
    assert (target["health"], target["lastError"]) == ("up", "")


@pytest.mark.parametrize("name", DASHBOARDS)
def test_prometheus_understands_every_panel(router: RunningRouter, net: Net, server: Prometheus, name: str) -> None:
    """Each query of the dashboard of a router also finds series of this one, which stands alone."""
    until(lambda: server.value("up") == 1, "a scrape before the traffic")
    traffic(net, "shown", 5)
    until(lambda: server.value("rate(routerd_delivery_latency_seconds_count[1m])") > 0, "two scrapes of traffic")
    instance = site(router).removeprefix("http://")
    empty = [query for query in dashboard_queries(HERE / f"{name}.json", instance) if not server.query(query)]
    assert name != "router" or empty == []


def test_no_alert_fires_for_a_router_that_is_well(server: Prometheus) -> None:
    """The rules are loaded and quiet."""
    rules = (DOCS / "alerts.yml").read_text().count("- alert:")
    assert get(f"{server.url}/api/v1/rules").body.count('"type":"alerting"') == rules
    assert server.query('ALERTS{alertstate="firing"}') == []
