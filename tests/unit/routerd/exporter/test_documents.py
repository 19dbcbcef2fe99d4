"""Dashboard and alert rules name metrics that exist, with labels that they have."""

import json
import re
from pathlib import Path

import pytest

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
        else:
            known[metric.shown] = labels
    return known


def panels() -> list[dict[str, object]]:
    return list(json.loads((DOCS / "grafana-dashboard.json").read_text())["panels"])


def dashboard_queries() -> list[str]:
    return [target["expr"] for panel in panels() for target in panel["targets"]]  # type: ignore[attr-defined]  # as JSON has it


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


def test_every_panel_asks_for_something_and_has_its_own_place() -> None:
    """No empty panel, no two on top of each other, all for the chosen router."""
    places = set()
    for panel in panels():
        assert panel["title"]
        assert panel["targets"]
        at = panel["gridPos"]
        places |= {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}  # type: ignore[index]  # as JSON has it
    assert len(places) == sum(panel["gridPos"]["w"] * panel["gridPos"]["h"] for panel in panels())  # type: ignore[index]  # likewise
    assert all('instance=~"$instance"' in query for query in dashboard_queries())


def test_dashboard_shows_every_reason_for_a_refusal() -> None:
    """What an operator asks first: why did it not arrive?"""
    shown = " ".join(dashboard_queries())
    for name in ("settled", "dropped", "malformed", "aborted"):
        assert f"routerd_{name}_deliveries_total" in shown
    assert "routerd_failed_connections_total" in shown
    for name in COUNTERS:
        if name.startswith("refused_"):
            assert f"routerd_{name}_total" in shown
