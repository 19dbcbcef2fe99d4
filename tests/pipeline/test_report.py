"""The report of a real run, and what a browser makes of it."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.output.generations import Generation
from pipeline.output.results import Results
from pipeline.report.write import report
from tests.support.clients.browser import Browser
from tests.support.pipeline.report import Page, finding, latency, made, traffic

HOUR = timedelta(hours=1)
WIDTHS = (390, 1300)
# Elements that stick out of the page, apart from those in a part that scrolls by itself.
WIDER = """[...document.querySelectorAll("body *")].filter(one => !one.closest("div.wide, svg")
&& one.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(one => one.outerHTML)"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One for all tests of this file."""
    started = Browser(tmp_path_factory.mktemp("chromium") / "profile")
    yield started
    started.close()


def open_report(browser: Browser, found: Generation, width: int, dark: bool = False) -> None:
    browser.new_page()
    browser.size(width, 900, dark)
    browser.open(f"file://{Path(report(found)).resolve()}")
    browser.until("document.readyState === 'complete' && !!document.querySelector('h2')")


def test_a_report_of_a_real_run_says_what_its_log_has(results: Results) -> None:
    """Every fault that the generator put in, the totals of the run, and the network as it is."""
    written = Path(report(results.generation)).read_text()
    shown = Page(written)
    table = shown.table("Findings: all")
    assert {row[1] for row in table} == {
        "slow consumer", "credit starvation", "error burst", "latency shift", "loop", "detour", "asymmetric pair",
        "no consumers",
    }  # fmt: skip
    traffic_of = pq.read_table(results.generation.files("traffic"), columns=["egress_kind", "messages"]).to_pylist()
    every = sum(row["messages"] for row in traffic_of if row["egress_kind"] not in ("inter_router", "edge"))
    counted = [int(row[1].replace(",", "")) for row in shown.table("The busiest addresses")]
    assert sum(counted) == every > 0
    matrix = shown.table("Messages from the router where they came in")
    assert sum(int(cell.replace(",", "")) for row in matrix for cell in row[1:]) == every
    assert re.search(r"\d others? (?:was|were) over by then|Nothing was wrong when the log ended", shown.text)
    assert [tag for tag, _ in shown.elements].count("circle") == 5  # four routers, and one at the edge
    assert len(shown.table("Links: all")) == 10
    assert "http" not in re.sub(r'<meta http-equiv="[^>]*>', "", written)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_browser_shows_a_report_whole(browser: Browser, tmp_path: Path, width: int, dark: bool) -> None:
    """From a file, without a complaint; nothing sticks out, not even long names; tables have names."""
    long = "x" * 300
    names = ["orders", long, "<script>alert(1)</script>", "y" * 40]
    tables = {
        "traffic": [
            traffic(at * HOUR, name, 1000 + at, accepted=900, rejected=100 + at, origin=names[3])
            for at in range(48)
            for name in names
        ],
        "latencies": [latency(at * HOUR, name, 200 + 7 * at, 100) for at in range(48) for name in names],
        "findings": [
            finding(kind, 30 * HOUR, 48 * HOUR, address=name, container=long, evidence=long)
            for kind in ("error burst", "slow consumer", "detour")
            for name in names
        ],
        "hops": [
            {"router_id": one, "onward": two, "messages": 5} for one, two in ((long[:40], "R2"), ("R2", long[:40]))
        ],
        "ways": [{"path": long, "messages": 1, "usual": True}],
        "talkers": [{"role": "sender", "router_id": long, "container": long, "address": long, "place": 1}],
        "processes": [{"router_id": long}],
        "advice": [{"router_id": long, "pinning": long}],
    }
    open_report(browser, made(tmp_path / "out", tables, skipped=[long]), width, dark)
    assert browser.complaints == []
    assert browser.nameless() == []
    assert browser.run(WIDER) == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.scripts.length") == 0
    assert "things were wrong when the log ended" in browser.text("section.verdict p.first")
    plots = browser.run("[...document.querySelectorAll('svg')].map(one => one.getBoundingClientRect().height)")
    assert len(plots) == 4 + 1 + len(names) + 1
    assert min(plots) > 15
    drawn = browser.run("[...document.querySelectorAll('svg.time path.line')].map(one => one.getBBox().width)")
    assert min(drawn) >= 47  # lines reach from one end to the other
    # Both colours of a text are those of the mode.
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is not dark


def test_keys_reach_what_a_pointer_does(browser: Browser, tmp_path: Path) -> None:
    """Figures are opened by a key, and a finding's line in the plot leads to its row."""
    tables = {"traffic": [traffic(HOUR)], "findings": [finding("error burst", 30 * HOUR, 48 * HOUR)]}
    open_report(browser, made(tmp_path / "out", tables), 1300)
    browser.focus("details summary")
    browser.press("Enter")
    browser.until("document.querySelector('details').open")
    browser.focus("div.names a")
    browser.press("Enter")
    browser.until("location.hash === '#finding-1' && !!document.querySelector('tr:target')")
    assert browser.complaints == []
