"""Dashboard and alert rules name metrics that exist, with labels that they have."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs.dashboards import DASHBOARDS, HERE, dashboard, expression
from routerd.exporter.catalogue import catalogue
from shm.statistics.stats import COUNTERS

DOCS = Path(__file__).parents[4] / "docs"
PROMETHEUS = {"up", "ALERTS"}
OF_A_HISTOGRAM = ("_bucket", "_sum", "_count")


def series() -> dict[str, set[str]]:
    """Every series there is, with its labels."""
    known: dict[str, set[str]] = {}
    for metric in catalogue():
        labels = {*metric.labels, "instance", "job"}
        if metric.kind == "histogram":
            known |= {metric.name + end: labels | ({"le"} if end == "_bucket" else set()) for end in OF_A_HISTOGRAM}
        elif metric.kind == "summary":
            known |= {metric.name + end: labels for end in OF_A_HISTOGRAM[1:]}
        else:
            known[metric.shown] = labels
    return known


def panels(name: str) -> list[dict[str, Any]]:
    return list(json.loads((HERE / f"{name}.json").read_text())["panels"])


def dashboard_queries(*names: str) -> list[str]:
    """Of these dashboards, or of all."""
    return [target["expr"] for name in names or DASHBOARDS for panel in panels(name) for target in panel["targets"]]


def queries() -> list[str]:
    rules = re.split(r"(?m)^\s+- alert:", (DOCS / "alerts.yml").read_text())[1:]
    found = [re.search(r"(?s)expr: \|?(.*?)\n +(?:for|labels):", rule) for rule in rules]
    tests = re.findall(r"series: '([^']+)'", (DOCS / "alerts-test.yml").read_text())
    return [*dashboard_queries(), *(match[1] for match in found if match), *tests]


@pytest.mark.parametrize("query", queries())
def test_queries_name_what_exists(query: str) -> None:
    """A panel or a rule over a name that nobody exports is silent for ever."""
    known = series()
    names = set(re.findall(r"\b(?:routerd|qdr)_\w+", query)) | (set(re.findall(r"\bup\b", query)))
    assert names, query
    assert names <= known.keys() | PROMETHEUS
    labels = {label for part in re.findall(r"\{([^}]*)\}", query) for label in re.findall(r"(\w+)\s*(?:=~|!=|=)", part)}
    labels |= {label for part in re.findall(r"(?:by|without) \(([^)]*)\)", query) for label in re.findall(r"\w+", part)}
    for name in names - PROMETHEUS:
        assert labels - {"outcome", "process"} <= known[name] or labels <= known[name], (name, labels)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_every_panel_asks_for_something_and_has_its_own_place(name: str) -> None:
    """No empty panel, no two on top of each other, all for the chosen router."""
    places = set()
    for panel in panels(name):
        assert panel["title"]
        assert panel["targets"]
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        places |= {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
    assert len(places) == sum(panel["gridPos"]["w"] * panel["gridPos"]["h"] for panel in panels(name))
    for query in dashboard_queries(name):
        assert query.count('instance=~"$instance"') == len(re.findall(r"\brouterd_\w+", query)), query


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_is_the_declared_one(name: str) -> None:
    """If this fails: python -m docs.reference"""
    assert (HERE / f"{name}.json").read_text() == dashboard(name)


def test_queries_are_for_the_chosen_routers() -> None:
    """Over the interval of the panel; labels of a query stay."""
    assert expression("sum(rate(routerd_a_total))") == (
        'sum(rate(routerd_a_total{instance=~"$instance"}[$__rate_interval]))'
    )
    assert expression('min(routerd_b{c!="d"})') == 'min(routerd_b{instance=~"$instance", c!="d"})'


def test_dashboard_shows_every_reason_for_a_refusal() -> None:
    """What an operator asks first: why did it not arrive?"""
    shown = " ".join(dashboard_queries("router"))
    for name in ("settled", "dropped", "malformed", "aborted"):
        assert f"routerd_{name}_deliveries_total" in shown
    assert "routerd_failed_connections_total" in shown
    for name in COUNTERS:
        if name.startswith("refused_"):
            assert f"routerd_{name}_total" in shown
