"""What a soak says of figures that grow, and its picture (make soak runs it)."""

from xml.etree import ElementTree

import pytest

from tests.support.soak.picture import picture
from tests.support.soak.readings import Readings


def readings(values: list[float], unit: str) -> Readings:
    made = Readings()
    for hour, value in enumerate(values):
        made.put(hour, "steady, core", unit, value)
    return made


@pytest.mark.parametrize(
    ("unit", "values", "grows"),
    [
        ("MiB", [20.0 + hour for hour in range(24)], True),
        ("MiB", [5.0 * hour for hour in range(6)] + [30.0, 37.0] * 9, False),  # it finds its size, and stays there
        ("MiB", [200.0 + hour / 2 for hour in range(24)], False),  # by less than a tenth
        ("threads", [7.0] * 16 + [8.0] * 8, True),
        ("descriptors", [50.0, 53.0] * 12, False),
        ("descriptors", [50.0 + hour for hour in range(24)], True),
        ("descriptors", [50.0, 90.0], False),  # too few to say
    ],
)
def test_what_grows_is_told(unit: str, values: list[float], grows: bool) -> None:
    """By name and unit."""
    found = readings(values, unit).grown()
    assert len(found) == grows
    assert all(one.startswith("steady, core: ") and f" {unit} grew to " in one for one in found)


def test_the_picture_has_a_line_for_each_process() -> None:
    made = readings([20.0, 21.0], "MiB")
    made.put(0, "hurt, <odd>", "MiB", 3.0)
    made.put(0, "hurt", "segments", 9.0)
    drawn = ElementTree.fromstring(picture(made.series.values()))  # noqa: S314 - our own
    lines = [one for one in drawn if one.tag.endswith("polyline")]
    assert len(lines) == 2
    assert {"core", "<odd>"} < {one.text for one in drawn.iter()}
