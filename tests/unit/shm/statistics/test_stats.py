"""Statistics pages: names, takeover, histograms."""

import mmap

import pytest

from bench import contract
from shm import native
from shm.statistics import stats


@pytest.fixture
def page():
    memory = mmap.mmap(-1, native.control_bytes(1))
    native.format_control(memory, 1, 1 << 20)
    return native.StatsPage(memory, native.stats_offset(0))


def test_every_name_has_its_own_place():
    """No two counters share an index, all fit in a page."""
    assert len(stats.COUNTERS) == len(native.COUNTERS)
    places = [counter.place for counter in stats.COUNTERS.values()]
    assert len(places) == len(set(places))
    assert max(places) < 192
    assert {counter.kind for counter in stats.COUNTERS.values()} == {"counter", "gauge"}
    histograms = list(stats.HISTOGRAMS.values())
    assert len(histograms) == len(set(histograms))
    assert max(histograms) < 4


def test_read_gives_every_number_by_name(page):
    """Counters add up, gauges are set."""
    page.add(stats.COUNTERS["bytes_in"].place, 2**63)
    page.add(stats.COUNTERS["bytes_in"].place)
    page.set(stats.COUNTERS["links"].place, 4)
    numbers = stats.read(page)
    assert set(numbers) == set(stats.COUNTERS)
    assert {name: value for name, value in numbers.items() if value} == {"bytes_in": 2**63 + 1, "links": 4}


def test_a_successor_goes_on_counting_but_has_no_connections(page):
    """After a restart counters keep their value and gauges are 0."""
    stats.own(page, 100, 1)
    page.add(stats.COUNTERS["deliveries_in"].place, 7)
    page.set(stats.COUNTERS["connections"].place, 3)
    page.beat()
    stats.own(page, 101, 2)
    assert (page.pid, page.generation, page.heartbeat) == (101, 2, 1)
    assert stats.read(page)["deliveries_in"] == 7
    assert stats.read(page)["connections"] == 0


@pytest.mark.parametrize("value", [0, 1, 3, 4, 5, 7, 8, 1000, 123456789, 2**48 - 1])
def test_a_value_is_known_to_within_a_quarter(page, value):
    """The bucket of a value begins at or below it, by at most 25 %."""
    contract.observe(page, 0, value)
    total, counts = page.histogram(0)
    assert total == value
    floor = native.BUCKET_FLOORS[counts.index(1)]
    assert floor <= value <= floor * 1.25 + 1


def test_enormous_values_are_in_the_last_bucket(page):
    """Nothing is written behind the histogram."""
    contract.observe(page, 3, 2**64 - 1)
    assert page.histogram(3)[1][-1] == 1


def test_numbers_outside_the_page_are_refused(page):
    """IndexError, and ValueError where no page stands."""
    with pytest.raises(IndexError):
        page.get(192)
    with pytest.raises(IndexError):
        contract.observe(page, 4, 1)
    with pytest.raises(ValueError, match="no statistics page"):
        native.StatsPage(mmap.mmap(-1, 8192), 0)
