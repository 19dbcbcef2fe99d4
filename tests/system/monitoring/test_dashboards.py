"""Each panel of the dashboards asks for what a router serves: one with a neighbour, route tables and a flow log."""

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from docs.dashboards import DASHBOARDS
from tests.support.certificates import Authority
from tests.support.clients import rmr_frames
from tests.support.clients.web import get, site
from tests.support.routers.network import NetworkRouter
from tests.support.running import free_port, until

TABLE = "newrt|start\nmse|1004|-1|127.0.0.1:9\nnewrt|end|1\n"


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NetworkRouter]:
    """The router, after a frame of RMR."""
    folder, port = tmp_path_factory.mktemp("dashboards"), free_port()
    (folder / "table").write_text(TABLE)
    own = Authority(folder).issue("own", "/CN=localhost")
    sections = (
        "listener {\n host: 127.0.0.1\n port: 0\n http: yes\n}\n"
        f"sslProfile {{\n name: p\n certFile: {own.certificate}\n privateKeyFile: {own.key}\n}}\n"
        f"routeTable {{\n name: ric\n seed: {folder}/table\n connect: no\n}}\n"
        f"listener {{\n host: 127.0.0.1\n port: {port}\n protocol: rmr\n table: ric\n}}\n"
        f"flowLog {{\n directory: {folder}/flows\n rollAge: 1\n}}\n"
    )
    with ExitStack() as stack:
        other = NetworkRouter(folder / "other")
        stack.callback(other.kill)
        router = NetworkRouter(folder / "one", other.routers_url, more=sections)
        stack.callback(router.kill)
        router.knows(other.id)
        with socket.create_connection(("127.0.0.1", port), timeout=10) as application:
            application.sendall(rmr_frames.encode(rmr_frames.Frame(1004, b"x")))
        yield router
        router.end()
        other.end()


@pytest.mark.parametrize("name", DASHBOARDS)
def test_each_panel_asks_for_what_a_router_serves(scraped: NetworkRouter, name: str) -> None:
    """By name and labels: series of which a label is missing would be one line in place of many."""
    queries = [query for panel in DASHBOARDS[name][1] for query in panel.queries.values()]
    legends = [legend for panel in DASHBOARDS[name][1] for legend in panel.queries]

    def served() -> dict[str, set[str]]:
        lines = get(site(scraped) + "/metrics").body.splitlines()
        found = [re.match(r"(\w+)(?:\{(.*)\})? ", line) for line in lines if not line.startswith("#")]
        return {one[1]: {"instance", *re.findall(r'(\w+)="', one[2] or "")} for one in found if one}

    def missing() -> list[str]:
        known = served()
        return [metric for query in queries for metric in re.findall(r"\brouterd_\w+", query) if metric not in known]

    until(lambda: not missing(), f"metrics of the panels; {missing()}")
    known = served()
    for legend, query in zip(legends, queries, strict=True):
        labels = {label for metric in re.findall(r"\brouterd_\w+", query) for label in known[metric]}
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels, (legend, query)


def test_dashboards_are_few_panels() -> None:
    """Who is in trouble reads no more."""
    assert all(len(panels) <= 30 for _, panels in DASHBOARDS.values())
    assert all((Path(__file__).parents[3] / "docs" / "dashboards" / f"{name}.json").exists() for name in DASHBOARDS)
