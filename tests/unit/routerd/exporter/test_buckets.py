"""The bounds of a histogram's buckets."""

from routerd.exporter.collector import PYTHON_ENDS, buckets
from shm import native
from shm.memory.observer import Histogram


def test_a_fifth_of_a_millisecond_of_the_cores_python_is_told_from_more() -> None:
    """No power of two is near that limit of a turn (docs/decisions/009)."""
    counts = [0] * len(native.BUCKET_FLOORS)
    for taken in (190_000, 200_000):
        counts[max(i for i, floor in enumerate(native.BUCKET_FLOORS) if floor <= taken)] += 1
    found = dict(buckets(Histogram(0, counts), PYTHON_ENDS, float))
    assert [found[bound] for bound in ("131072", "196608", "262144")] == [0, 1, 2]
