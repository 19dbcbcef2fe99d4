"""The history: percentiles against a plain model, rates, two spans, and a bound for memory."""

import json
import os
import random
import tracemalloc
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from bench import contract
from routerd.exporter.collector import Identity
from routerd.exporter.history import HOUR, MINUTES, History, Tick, quantile
from routerd.exporter.observer import Observer
from routerd.exporter.server import Request
from routerd.exporter.site import Pages
from shm.memory import segment
from shm.memory.observer import SharedView
from shm.native import BUCKET_FLOORS
from shm.statistics import stats


def bucket(value: int) -> int:
    return bisect_right(BUCKET_FLOORS, value) - 1


def counted(values: list[int]) -> list[int]:
    """The histogram of these values."""
    counts = [0] * len(BUCKET_FLOORS)
    for value in values:
        counts[bucket(value)] += 1
    return counts


@pytest.mark.parametrize("seed", range(50))
def test_percentiles_are_in_the_bucket_of_the_true_ones(seed: int) -> None:
    """The model sorts all values and takes the nearest rank; spreads and numbers are arbitrary."""
    rng = random.Random(seed)  # noqa: S311  a test repeats it
    spread = rng.choice([0.1, 1, 3])
    values = [1 + int(rng.lognormvariate(12, spread)) for _ in range(rng.randint(1, 3000))]
    for per_mille in (500, 990, 999):
        true = sorted(values)[-(-len(values) * per_mille // 1000) - 1]
        found = quantile(counted(values), per_mille)
        assert found is not None
        assert bucket(int(found)) == bucket(true)
        assert abs(found - true) <= true / 4 + 1


def test_percentiles_of_few_values() -> None:
    """Nothing has none; one value is all of them; the last bucket has no end."""
    assert quantile(counted([]), 500) is None
    assert {bucket(int(quantile(counted([1000]), n) or 0)) for n in (1, 500, 999)} == {bucket(1000)}
    assert quantile(counted([BUCKET_FLOORS[-1]]), 999) == BUCKET_FLOORS[-1]


class Bed:
    """A router of two workers and a core, all played by the test; one tick is a second."""

    def __init__(self, segments: segment.Segments) -> None:
        self.segments = segments
        self.now = 0.0
        for page in (segments.supervisor_stats(), segments.core_stats(), *map(segments.worker_stats, range(2))):
            page.own(os.getpid(), 1)
        self.observer = Observer(SharedView(segments.names.prefix), lambda: self.now)
        self.observer.tick()

    def tick(self, seconds: float = 1.0) -> None:
        self.now += seconds
        self.observer.tick()

    def set(self, **numbers: int) -> None:
        for name, number in numbers.items():
            self.segments.core_stats().set(stats.COUNTERS[name].place, number)

    def past(self, span: str) -> Any:
        pages = Pages(self.observer, Identity("me", "1", "3"), Counter(), Counter())
        request = Request("/history.json", {"span": [span]})
        return json.loads(pages.site(metrics=True, healthz=True)(request).body)

    def last(self, span: str) -> dict[str, Any]:
        past = self.past(span)
        return dict(zip(past["names"], past["points"][-1], strict=True))


@pytest.fixture
def bed() -> Iterator[Bed]:
    with segment.create(segment.segment_prefix("test-history", os.getpid()), 2, 1) as segments:
        yield Bed(segments)


def test_a_point_has_what_happened_since_the_one_before(bed: Bed) -> None:
    """Per second, however long the tick took; reasons of drops add up; a counter that was set back is no rate."""
    bed.set(deliveries_in=50, accepted=30, released=4, rejected=6, modified=2, unsettled=8)
    bed.set(dropped_presettled=3, dropped_slow=5, dropped_gone=2)
    bed.tick(2.0)
    found = bed.last("minutes")
    assert [found[name] for name in ("deliveriesIn", "deliveriesOut", "accepted")] == [25, 0, 15]
    assert [found[name] for name in ("released", "rejected", "modified", "dropped")] == [2, 3, 1, 5]
    assert found["unsettled"] == 8
    assert found["p50"] is None
    bed.set(deliveries_in=0)
    bed.tick()
    assert bed.last("minutes")["deliveriesIn"] == 0


def test_latencies_are_those_of_a_point_alone(bed: Bed) -> None:
    """A slow second is seen in its point, and in the 10 seconds with it, and nowhere else."""
    core, place = bed.segments.core_stats(), stats.HISTOGRAMS["delivery_latency_ns"]
    for second in range(1, 31):
        for _ in range(100):
            contract.observe(core, place, 50_000_000 if second == 13 else 100_000)
        bed.tick()
    minutes = [point[bed.past("minutes")["names"].index("p99")] for point in bed.past("minutes")["points"]]
    assert minutes[12] == pytest.approx(0.05, rel=0.25)
    assert [one for second, one in enumerate(minutes) if second != 12] == pytest.approx([1e-4] * 29, rel=0.25)
    hour = bed.past("hour")
    found = [dict(zip(hour["names"], point, strict=True)) for point in hour["points"]]
    assert [point["p99"] for point in found] == pytest.approx([1e-4, 0.05, 1e-4], rel=0.25)
    assert found[1]["p50"] == pytest.approx(1e-4, rel=0.25)


def test_a_point_of_ten_seconds_keeps_a_peak_of_unsettled_deliveries(bed: Bed) -> None:
    """The highest of its ticks; rates are those of all of it."""
    for second in range(1, 21):
        bed.set(unsettled=900 if second == 5 else 1, deliveries_in=10 * second)
        bed.tick()
    past = bed.past("hour")
    places = [past["names"].index(name) for name in ("unsettled", "deliveriesIn")]
    assert [[point[place] for place in places] for point in past["points"]] == [[900, 10], [1, 10]]
    assert past["ages"] == [10, 0]


def test_the_history_is_bounded() -> None:
    """Two hours leave two minutes of seconds and one hour of tens; the second hour takes no more memory."""
    history, latency = History(), [0] * len(BUCKET_FLOORS)

    def hour(number: int) -> int:
        for second in range(number * 3600, number * 3600 + 3600):
            counters = dict.fromkeys(stats.COUNTERS, second * second)
            latency[second % 100] += 1
            history.add(Tick(second, counters, {"core": second / 2, "worker-0": second / 3}, {}), tuple(latency))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        began, first, second = tracemalloc.get_traced_memory()[0], hour(0), hour(1)
    finally:
        tracemalloc.stop()
    minutes, tens = history.spans["minutes"].points, history.spans["hour"].points
    assert (len(minutes), len(tens)) == (MINUTES, HOUR)
    assert (minutes[0].time, tens[0].time) == (7200 - MINUTES, pytest.approx(3605, abs=5))
    assert second - first < 16 << 10
    assert first - began < 300 << 10


def test_a_span_that_is_not_kept_is_refused(bed: Bed) -> None:
    """With the names of those that are."""
    pages = Pages(bed.observer, Identity("me", "1", "3"), Counter(), Counter())
    answer = pages.site(metrics=True, healthz=True)(Request("/history.json", {"span": ["year"]}))
    assert (answer.status, answer.body) == (400, b"span is one of minutes, hour\n")
