"""What a report says of results: its figures are those of the tables, and its size has a bound."""

import json
import random
import shutil
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline.cli import pipeline
from pipeline.errors import PipelineError
from pipeline.output.directory import DAY, STREAM
from pipeline.output.generations import Generation
from pipeline.report.tables import Tables
from pipeline.report.write import report, text
from tests.model.plainly import nearest_rank
from tests.support.pipeline.output import claim
from tests.support.pipeline.report import Page, finding, latency, made, traffic

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
MOST_OCTETS = 1_500_000  # of a page, whatever is in the tables


def page(found: Generation) -> Page:
    return Page(text(Tables(found), found.summary()))


def numbers(cells: list[str]) -> list[int]:
    return [int(one.replace(",", "")) for one in cells]


def test_figures_are_those_of_the_tables(tmp_path: Path) -> None:
    """Of each slot and address, of all others together, and of the two days, against sums by hand."""
    dice = random.Random(1)  # noqa: S311  no secret
    names = [f"a{at}" for at in range(30)]
    rows, late = [], []
    for at in range(0, 48 * 60, 7):
        name = names[min(int(dice.expovariate(0.15)), 29)]
        count = dice.randrange(1, 50)
        bad = dice.choice([0, 0, dice.randrange(count)])
        kind = dice.choice([None, "normal", ("inter_router", "edge")[at % 2]])
        rows.append(traffic(at * MINUTE, name, count, egress_kind=kind, accepted=count - bad, rejected=bad))
        late.append(latency(at // 15 * 15 * MINUTE, name, dice.randrange(200, 400), count))
    shown = page(made(tmp_path / "out", {"traffic": rows, "latencies": late}))
    left = [row for row in rows if row["egress_kind"] not in ("inter_router", "edge")]

    by_name: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in left:
        by_name[row["address"]].append(row)
    order = sorted(by_name, key=lambda one: (-sum(row["messages"] for row in by_name[one]), one))
    others = [row for one in order[16:] for row in by_name[one]]
    wanted = [
        *((one, by_name[one], {one}) for one in order[:16]),
        (f"{len(order) - 16} others", others, set(order[16:])),
    ]
    table = shown.table("The busiest addresses")
    assert len(table) == len(wanted)
    for cells, (name, some, which) in zip(table, wanted, strict=True):
        messages = sum(row["messages"] for row in some)
        values = [(2.0 ** ((row["bucket"] + 1) / 16), row["messages"]) for row in late if row["address"] in which]
        assert cells[0] == name
        assert cells[1] == f"{messages:,}"
        assert cells[3] == f"{sum(row['rejected'] for row in some) / messages * 100:.1f} %"
        for cell, per_mille in zip(cells[4:6], (500, 990), strict=True):
            assert cell == f"{(nearest_rank(values, per_mille) or 0) / 1e6:,.3f}"

    both = shown.table("p50 and p99 in ms by address")
    for at, (_, _, which) in enumerate(wanted):
        first = [(2.0 ** ((one["bucket"] + 1) / 16), one["messages"]) for one in late[:5] if one["address"] in which]
        ranks = [nearest_rank(first, per_mille) for per_mille in (500, 990)]  # the first half an hour
        assert both[0][at + 1] == (" / ".join(f"{(one or 0) / 1e6:,.3f}" for one in ranks) if first else "")

    slots = shown.table("Messages, those that were not accepted")
    assert len(slots) == 96
    per_slot: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in left:
        slot = row["minute"].replace(minute=row["minute"].minute // 30 * 30)
        per_slot[f"{slot:%m-%d %H:%M}"][0] += row["messages"]
        per_slot[f"{slot:%m-%d %H:%M}"][1] += row["rejected"]
    assert {cells[0]: numbers(cells[1:3]) for cells in slots} == {
        cells[0]: per_slot.get(cells[0], [0, 0]) for cells in slots
    }
    days = [sum(row["messages"] for row in left if row["minute"].day == day) for day in (5, 6)]
    assert f"{days[1]:,} {(days[1] / days[0] - 1) * 100:+.0f} % (before {days[0]:,})" in shown.text


def test_what_is_wrong_stands_first(tmp_path: Path) -> None:
    """How many things when the log ended, since when and where; then what is over, and odd paths without alarm."""
    found = [
        finding("detour", 0 * HOUR, 48 * HOUR, container="R1>R2"),
        finding("slow consumer", 30 * HOUR, 31 * HOUR, container="c", address="b"),
        finding("latency shift", 40 * HOUR, 48 * HOUR, address="late"),
        finding("error burst", 46 * HOUR, 48 * HOUR, router_id="R2", address="bad"),
        finding("what nobody knows yet", 1 * HOUR, 2 * HOUR),
    ]
    shown = page(made(tmp_path / "out", {"traffic": [traffic(HOUR)], "findings": found}))
    first = shown.text.index(
        "2 things were wrong when the log ended, 2026-01-06 23:59 UTC; 2 others were over by then."
    )
    places = [
        first,
        shown.text.index("Messages to bad fail (router R2) , since 2026-01-06 22:00"),
        shown.text.index("Messages to late take longer than on earlier days (router R1) , since 2026-01-06 16:00"),
        shown.text.index("What nobody knows yet: a (router R1)"),
        shown.text.index("The receiver c of b is slow (router R1) , 2026-01-06 06:00 to 07:00, now over"),
        shown.text.index("1 unusual path: see"),
        shown.text.index("Time line"),
    ]
    assert places == sorted(places)
    table = shown.table("Findings: all 5")
    assert [row[1] for row in table] == [
        "error burst", "latency shift", "detour", "what nobody knows yet", "slow consumer",
    ]  # fmt: skip
    ids = {attributes.get("id") for _, attributes in shown.elements}
    links = {attributes["href"] for tag, attributes in shown.elements if tag == "a"}
    assert {f"#finding-{at}" for at in range(1, 6)} <= links
    assert {str(link)[1:] for link in links} <= ids  # none leads nowhere
    marked = [attributes for tag, attributes in shown.elements if tag == "rect" and attributes["class"] == "band"]
    assert len(marked) >= 3 * 3  # error burst, latency shift and slow consumer in three plots


def test_without_findings_nothing_is_wrong(tmp_path: Path) -> None:
    """One sentence, without a mark; what weakens it is said."""
    shown = page(made(tmp_path / "one", {"traffic": [traffic(HOUR)]}))
    assert "Nothing was wrong when the log ended, 2026-01-06 23:59 UTC." in shown.text
    assert "No finding: nothing is marked." in shown.text
    assert "Nothing is out of the ordinary." in shown.text
    assert "not complete" not in shown.text
    assert "The log is old" not in shown.text
    said = {"lost": 1200, "skipped": ["x.parquet: cut short"], "made": "2026-01-07T06:00:00+00:00"}
    shown = page(made(tmp_path / "two", {"traffic": [traffic(HOUR)]}, **said))
    assert "not complete: 1,200 records are missing by their numbers, 1 file was left out" in shown.text
    assert "The log is old: its last record came at 2026-01-06 23:59" in shown.text
    assert "x.parquet: cut short" in shown.table("Files left out")[0][0]
    shown = page(made(tmp_path / "three", {"traffic": [traffic(HOUR)]}, made="2026-01-06T12:00:00+00:00"))
    assert "The last record is of 2026-01-06 23:59, and the run was made at 2026-01-06 12:00: the clock" in shown.text


def test_one_day_only_is_said(tmp_path: Path) -> None:
    """There is no comparison, and no figure of one."""
    shown = page(made(tmp_path / "out", {"traffic": [traffic(HOUR)], "latencies": [latency(HOUR)]}, hours=24))
    assert "The log has no more than one day, so there is no day before to compare it with." in shown.text
    assert "day before)" not in shown.text
    assert "In the whole log 1 message left the network" in shown.text


def test_a_day_of_a_stream_is_compared_with_the_day_before(tmp_path: Path) -> None:
    """Whose tables are beside its own; without that day, or where it is torn, there is no comparison."""
    claim(tmp_path / "days", tmp_path / "log", STREAM)
    before = {"traffic": [traffic(2 * HOUR, "gone", 10), traffic(2 * HOUR, "stays", 200)]}
    now = {"traffic": [traffic(26 * HOUR, "new", 10), traffic(26 * HOUR, "stays", 200)]}
    now["findings"] = [finding("no consumers", 30 * HOUR, 31 * HOUR)]
    made(tmp_path / "days" / "date=2026-01-05", before, hours=24, kind=DAY)
    made(tmp_path / "days" / "date=2026-01-06", now, kind=DAY, first_minute="2026-01-06 00:00:00")

    def shown(results: str) -> Page:
        done = CliRunner().invoke(pipeline, ["report", "--results", str(tmp_path / "days" / results)])
        assert done.exit_code == 0, done.output
        return Page(Path(done.output.strip()).read_text())

    for results in ("", "date=2026-01-06"):
        both = shown(results)
        assert both.table("New addresses") == [["new", "0", "10", "new"]]
        assert both.table("Addresses that are gone") == [["gone", "10", "0", "-100 %"]]
        assert [row[0] for row in both.table("Findings of one day")] == ["new"]
        assert "In the last 24 hours 210 messages left" in both.text
        assert "2026-01-06 00:00 to" in both.text
    assert "so there is no day before to compare it with" in shown("date=2026-01-05").text
    (run,) = tmp_path.glob("days/date=2026-01-05/run-*")
    said = json.loads((run / "summary.json").read_text())
    del said["tables"]["latencies"]  # as with --tables
    (run / "summary.json").write_text(json.dumps(said))
    shutil.rmtree(run / "latencies")
    assert "so there is no day before to compare it with" in shown("").text
    part = CliRunner().invoke(pipeline, ["report", "--results", str(run.parent)])
    assert part.exit_code == 1
    assert "no table latencies: `routerd pipeline stream` without `--tables` makes it" in part.output
    shutil.rmtree(run / "traffic")
    assert "so there is no day before to compare it with" in shown("").text


def test_an_empty_log_is_said(tmp_path: Path) -> None:
    """No minute, so no axis."""
    shown = page(made(tmp_path / "out", {}, first_minute=None, last_minute=None, records=0, messages=0))
    assert "The log is empty." in shown.text


def test_changes_are_those_beyond_the_limits(tmp_path: Path) -> None:
    """New and gone addresses, traffic, p99, outcomes and findings, at their limits and just within."""
    old, new = 2 * HOUR, 26 * HOUR
    rows = [
        traffic(new, "new", 10), traffic(new, "hardly new", 9),
        traffic(old, "gone", 10), traffic(old, "hardly there", 9),
        traffic(old, "more", 100), traffic(new, "more", 150),
        traffic(old, "less", 150), traffic(new, "less", 100),
        traffic(old, "as before", 200), traffic(new, "as before", 299),
        traffic(old, "few", 4), traffic(new, "few", 99),
        traffic(old, "fails", 1000, accepted=1000), traffic(new, "fails", 1000, accepted=980, released=20),
        traffic(old, "fails less", 1000), traffic(new, "fails less", 1000, accepted=991, released=9),
    ]  # fmt: skip
    slow, quick = 330, 300  # 1.6 ms and 0.44 ms
    late = [
        latency(old, "slower", quick, 100), latency(new, "slower", slow, 100),
        latency(old, "quicker", slow, 100), latency(new, "quicker", quick, 100),
        latency(old, "seldom", quick, 99), latency(new, "seldom", slow, 99),
        latency(old, "tiny", 100, 100), latency(new, "tiny", 200, 100),
    ]  # fmt: skip
    rows += [traffic(at, row["address"], 1) for row in late for at in (old, new)]
    found = [
        finding("error burst", 1 * HOUR, 2 * HOUR, address="was"),
        finding("error burst", 30 * HOUR, 31 * HOUR, address="is"),
        finding("no consumers", 1 * HOUR, 40 * HOUR, address="both"),
    ]
    shown = page(made(tmp_path / "out", {"traffic": rows, "latencies": late, "findings": found}))
    assert shown.table("New addresses") == [["new", "0", "10", "new"]]
    assert shown.table("Addresses that are gone") == [["gone", "10", "0", "-100 %"]]
    assert shown.table("Traffic: messages 1.5") == [["less", "150", "100", "-33 %"], ["more", "100", "150", "+50 %"]]
    p99 = shown.table("p99 in ms: 1.5")
    assert [(row[0], row[3]) for row in p99] == [("quicker", "-73 %"), ("slower", "+267 %")]
    assert shown.table("Share that was not accepted") == [["fails", "0.0 %", "2.0 %", "+2.0 points"]]
    assert [row[:2] for row in shown.table("Findings of one day")] == [
        ["new", "Messages to is fail (router R1)"],
        ["over", "Messages to was fail (router R1)"],
    ]


@pytest.mark.parametrize("name", ["traffic", "findings", "hops", "latencies"])
def test_a_damaged_table_is_named(tmp_path: Path, name: str) -> None:
    """Its footer says what it has, and its values are no values."""
    tables = {"traffic": [traffic(HOUR)], "latencies": [latency(HOUR)], "findings": [finding("loop", HOUR, 2 * HOUR)]}
    run = made(tmp_path / "out", {**tables, "hops": [{"router_id": "R1", "onward": "R2", "messages": 5}]})
    (path,) = Path(run.root, name).glob("*.parquet")
    data = path.read_bytes()
    last = int.from_bytes(data[-8:-4], "little") + 8  # of the file: the footer
    path.write_bytes(data[:4] + b"\xff" * (len(data) - last - 4) + data[-last:])
    with pytest.raises(PipelineError, match=rf"out/run-\w+/{name} cannot be read: .*`routerd pipeline run` makes it"):
        text(Tables(run), run.summary())


def test_a_neighbour_whose_name_is_not_known_is_no_router_in_the_picture(tmp_path: Path) -> None:
    """Its link is in the table of links."""
    hops = [{"router_id": "R1", "onward": other, "messages": 5} for other in (None, "R2")]
    run = made(tmp_path / "out", {"traffic": [traffic(HOUR)], "hops": hops})
    assert "None" not in text(Tables(run), run.summary())
    shown = page(run)
    assert [
        attributes["aria-label"][:30] for tag, attributes in shown.elements if attributes.get("class") == "network"
    ] == ["2 routers and 1 lines between "]
    assert [row[:2] for row in shown.table("Links")] == [["R1", ""], ["R1", "R2"]]


def test_ten_thousand_of_everything_is_a_page_of_the_same_size(tmp_path: Path) -> None:
    """Addresses, routers and findings: the worst and busiest are shown, the others are said."""
    many = 10_000

    def name(at: int) -> str:
        return f"{at:05}" + "<&\"'" * 60

    rows = [traffic(at % 2880 * MINUTE, name(at), 1 + at, origin=f"R{at % 500}") for at in range(many)]
    late = [latency(at % 190 * 15 * MINUTE, name(at), 100 + at % 400, 1 + at) for at in range(many)]
    found = [
        finding("slow consumer", at * MINUTE, (at + 60) * MINUTE, address=name(at), container=name(at), n=at)
        for at in range(2800)
    ]
    hops = [
        {"router_id": f"R{at}", "onward": f"R{other}", "messages": 1 + at}
        for at in range(60)
        for other in range(60)
        if at != other
    ]
    ways = [{"path": f"{name(at)}>{at}", "messages": at, "usual": True} for at in range(many)]
    processes = [{"router_id": f"R{at}", "worker_id": 1, "load_peak": at / 1e4} for at in range(many)]
    tables = {
        "traffic": rows, "latencies": late, "findings": found, "hops": hops, "ways": ways, "processes": processes,
        "advice": [{"router_id": name(at), "worker_peak": 0.1} for at in range(many)],
    }  # fmt: skip
    written = text(Tables(run := made(tmp_path / "out", tables)), run.summary())
    assert len(written.encode()) < MOST_OCTETS
    shown = Page(written)
    table = shown.table("The busiest addresses")
    assert table[-1][0] == "9,984 others"
    assert sum(numbers([row[1] for row in table])) == many * (many + 1) // 2
    assert shown.table("Findings: the 30 worst, of 2,800")
    assert shown.table("Links: the 40 busiest, of 3,540")
    assert shown.table("Paths: the 25 most used, of 10,000")
    assert shown.table("Processes: the 24 busiest, of 10,000")
    assert any(caption.startswith("New addresses") and "more are not shown" in caption for caption in shown.tables)
    assert "share one" in shown.text
    assert len([tag for tag, _ in shown.elements if tag == "circle"]) == 12


def test_times_below_zero_are_shown_as_zero_and_told(tmp_path: Path) -> None:
    """Nothing comes before it is sent: two clocks disagree, and the page says which, in tables and the network."""
    hops = [
        {
            "router_id": "R1",
            "onward": "R2",
            "messages": 9,
            "transit_n": 9,
            "transit_p50": -150_000,
            "transit_p99": 7_000,
        },
        {"router_id": "R2", "onward": "R3", "messages": 5, "transit_n": 5, "transit_p50": 1_000, "transit_p99": 2_000},
    ]
    times = {"took_n": 9, "took_p50": -2_000_000, "took_p90": -1, "took_p99": 3_000_000}
    ways = [{"path": "R1>R2", "messages": 9, "usual": True}]
    run = made(tmp_path / "out", {"hops": hops, "ways": ways, "journeys": [{"path": "R1>R2", **times}]})
    shown = page(run)
    assert [row[-2:] for row in shown.table("Links")] == [["0.000", "0.007"], ["0.001", "0.002"]]
    assert [row[-2:] for row in shown.table("Paths")] == [["0.000", "3.000"]]
    written = text(Tables(run), run.summary())
    assert "R1 to R2: messages came before they were sent" in written
    assert "R2 to R3: messages" not in written
    assert "-150" not in written
    assert "half of 9 took at most 0 ns" in written


HOSTILE = (
    b"<script>alert(1)</script>", b"</title><img src=x onerror=alert(1)>", b'"><a href="javascript:alert(1)">',
    b"\xff\xfe\x80\xc0", b"", b"\0", b"a\x1b[2J", "\u202e\u2066gnp.exe".encode(), b"{{x}} ${x} %s %n {name}", b"]]>",
    "日本語/ünï".encode(), b"<!--", b"&lt;b&gt;", b"x" * 5000,
)  # fmt: skip


def test_hostile_names_stay_texts(tmp_path: Path) -> None:
    """In every table and plot; octets that are no UTF-8 are shown as escapes, and nothing is loaded or run."""
    rows, late, found, ways, talkers = [], [], [], [], []
    for at, name in enumerate(HOSTILE):
        rows.append(traffic(at * HOUR, name, 100, origin=name, router_id=name, rejected=50, accepted=50))
        rows.append(traffic((at + 24) * HOUR, name, 1000, origin=name, router_id=name))
        late.append(latency(at * HOUR, name, 300, 100))
        where = {"router_id": name, "address": name, "container": name, "evidence": name}
        found += [finding(kind, at * HOUR, 47 * HOUR, **where) for kind in ("error burst", "loop", name)]
        ways.append({"path": name, "messages": 1, "usual": True})
        talkers.append({"role": "sender", "router_id": name, "container": name, "address": name, "place": 1})
    hops = [{"router_id": one, "onward": other, "messages": 5} for one in HOSTILE for other in HOSTILE]
    tables = {
        "traffic": rows, "latencies": late, "findings": found, "ways": ways, "talkers": talkers, "hops": hops,
        "journeys": ways, "processes": [{"router_id": one} for one in HOSTILE],
        "advice": [{"router_id": one, "pinning": one} for one in HOSTILE],
    }  # fmt: skip
    run = made(tmp_path / "out", tables, skipped=["<script>x</script>"])
    written = text(Tables(run), run.summary())
    shown = Page(written)
    assert {tag for tag, _ in shown.elements} <= {
        "html", "head", "meta", "title", "style", "body", "header", "main", "section", "nav", "h1", "h2", "h3", "p",
        "b", "ul", "li", "a", "dl", "div", "dt", "dd", "small", "figure", "figcaption", "span", "i", "svg", "g", "path",
        "line", "rect", "circle", "text", "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td",
    }  # fmt: skip
    for _, attributes in shown.elements:
        assert not [one for one in attributes if one.startswith("on") or one == "src"]
        assert str(attributes.get("href", "#")).startswith("#")
    addresses = [row[0] for row in shown.table("The busiest addresses")]
    assert "<script>alert(1)</script>" in addresses
    assert "\\xff\\xfe\\x80\\xc0" in addresses
    assert "the empty address" in addresses
    assert "&lt;b&gt;" in addresses
    assert all(one.isprintable() for one in written.replace("\n", ""))


def test_a_report_needs_no_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither Java nor PySpark: the page is there, where the command says."""
    made(tmp_path / "out", {"traffic": [traffic(HOUR)]})
    monkeypatch.setattr("pipeline.session.session", None)
    done = CliRunner().invoke(pipeline, ["report", "--results", str(tmp_path / "out")])
    assert (done.exit_code, done.output) == (0, f"{tmp_path}/out/report.html\n")
    assert (tmp_path / "out/report.html").read_text().startswith("<!doctype html>")


def test_the_same_results_give_the_same_page(tmp_path: Path) -> None:
    """Byte for byte, though sums come in no order."""
    dice = random.Random(2)  # noqa: S311  no secret
    rows = [traffic(dice.randrange(2880) * MINUTE, f"a{dice.randrange(3000)}", 5) for _ in range(5000)]
    late = [latency(dice.randrange(190) * 15 * MINUTE, f"a{dice.randrange(3000)}", 300, 5) for _ in range(5000)]
    run = made(tmp_path / "out", {"traffic": rows, "latencies": late})
    assert Path(report(run)).read_bytes() == Path(report(run)).read_bytes()
