"""Pieces of the page: numbers as people read them, plots, and texts that stay texts."""

from datetime import UTC, datetime

import pytest

from pipeline.report import charts
from pipeline.report.charts import Band, Heat, Lane
from pipeline.report.page import days, duration, milliseconds, octets, page, period, share, short, table
from pipeline.report.tables import LONGEST, Name, named, seen
from pipeline.report.times import Axis
from tests.support.pipeline.report import Page

MONDAY = datetime(2026, 1, 5, 8, tzinfo=UTC)
AXIS = Axis(int(MONDAY.timestamp()), 900, 4)


def test_what_a_log_says_is_text() -> None:
    """Addresses are chosen by clients: none becomes a part of the page."""
    bad = "<img src=x onerror=alert(1)>\"'</style></title></svg>"
    bands = [Band(MONDAY, MONDAY, bad)]
    scale = charts.rates(1.0, bad)
    parts = {
        "": table((bad,), [(bad,)], cards=True, caption=bad),
        bad: charts.lines(bad, AXIS, [(bad, [1.0])], scale, bands),
        f"{bad}1": charts.stacked(bad, AXIS, [(bad, 1, [1.0])], scale, bands),
        f"{bad}2": charts.heat(bad, AXIS, [Heat(bad, [1.0], [1], bands)]),
        f"{bad}3": charts.lanes(bad, AXIS, [Lane(bad, bad, "bad", bands)]),
    }
    made = Page(page(bad, bad, parts))
    assert not [tag for tag, _ in made.elements if tag == "img"]
    assert not [attributes for _, attributes in made.elements if "onerror" in attributes]
    assert [tag for tag, _ in made.elements].count("title") == 1 + 4 + 1  # the page's, four bands, a cell
    assert [tag for tag, _ in made.elements].count("svg") == 4
    assert made.text.count(bad) >= 10


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"orders", "orders"),
        ("straße/日本".encode(), "straße/日本"),
        (b"\xff\xfe\x80", "\\xff\\xfe\\x80"),
        (b"a\0b\n\x1b[31m", "a\\x00b\\n\\x1b[31m"),
        ("a\u202eb\u200bc\ufeff\ue000".encode(), "a\\u202eb\\u200bc\\ufeff\\ue000"),
        (b"x" * 10_000 + b"end", "x" * 80 + "…" + "x" * 78 + "…"),
    ],
)
def test_a_text_is_seen_as_it_is(raw: bytes, shown: str) -> None:
    """What no page can show, or turns around what stands beside it, is an escape; long texts are cut."""
    assert seen(raw) == shown
    assert len(seen(raw)) <= LONGEST
    assert str(Name(raw, -1)) == shown


def test_names_say_address_and_type() -> None:
    """The empty address is not the same as none, for readers and as keys."""
    assert named(None, -1) == "no address"
    assert named("", -1) == "the empty address"
    assert named("a", 7) == "a, message type 7"
    assert str(Name(None, 7)) == "message type 7"
    every = [Name(None, -1), Name(b"", -1), Name(b"0", -1), Name(b"0", 1), Name(b"\0", -1), Name(b"0\0", 1)]
    assert len({one.key for one in every}) == len(every)


def test_numbers_are_as_people_read_them() -> None:
    """With the digits that count and units; scales end at round numbers, whatever they have to hold."""
    assert [octets(n) for n in (0, 999, 1000, 999_960, 5_802_184, 10**16)] == [
        "0 B", "999 B", "1.0 kB", "1.0 MB", "5.8 MB", "10,000.0 TB",
    ]  # fmt: skip
    assert [share(part) for part in (0, 0.0001, -0.0001, 0.25, 1)] == [
        "0.0 %",
        "< 0.1 %",
        "> -0.1 %",
        "25.0 %",
        "100.0 %",
    ]
    assert [milliseconds(ns) for ns in (None, 171_000, -2_092_000_000)] == [None, "0.171", "-2,092.000"]
    assert [days(count) for count in (None, 3.14, 1e6)] == [None, "3.1", "> 1,000"]
    assert [duration(ns) for ns in (0, 999, 1e3, 77_900, 999_600, 1.437e9, 3.6e12)] == [
        "0 ns", "999 ns", "1 µs", "77.9 µs", "1 ms", "1.44 s", "3,600 s",
    ]  # fmt: skip
    assert [short(count) for count in (0, 999, 1000, 40_709, 999_600, 2.5e9)] == [
        "0",
        "999",
        "1k",
        "40.7k",
        "1M",
        "2.5G",
    ]
    assert period(MONDAY, MONDAY.replace(hour=9)) == "2026-01-05 08:00 to 09:00"
    assert period(MONDAY, MONDAY.replace(day=6)) == "2026-01-05 08:00 to 2026-01-06 08:00"
    assert [charts.round_up(x) for x in (0, 1, 3, 0.668, 41, 99.9, 1e6)] == [1, 1, 5, 1, 50, 100, 1e6]
    for exponent in range(-30, 60):
        value = 1.37**exponent
        assert value <= charts.round_up(value) <= value * 2.5000001


def test_plots_show_values_at_their_places() -> None:
    """Steps, gaps where nothing is known, decades of latencies, and the first class that a latency does not exceed."""
    scale = charts.rates(10, "/s")
    drawn = charts.lines("t", AXIS, [("a", [0.0, 10.0, None, 5.0])], scale)
    assert 'd="M0 1000h1V0h1M3 500h1"' in drawn
    late = charts.latencies([None, 2e4, 3e6])
    assert late.labels == ("10 ms", "1 ms", "100 µs", "10 µs")
    assert [late.y(ns) for ns in (1e4, 1e5, 1e7)] == [1000, 667, 0]
    assert charts.latencies([]).labels == ("10 ms", "1 ms")
    assert charts.latencies([1e6]).labels == ("10 ms", "1 ms")
    assert [charts.heat_class(ns) for ns in (0, 1e5, 1.1e5, 3e9, 3.1e9)] == [0, 0, 1, 9, 10]
    assert charts.shares(0.03).labels == ("5 %", "2.5 %", "0 %")
    assert charts.shares(1.0).labels[0] == "100 %"
