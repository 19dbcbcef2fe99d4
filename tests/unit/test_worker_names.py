"""Numbers that stand in a C header and in Python: both must mean the same."""

import re
from pathlib import Path

import pytest

from shm import native, stats
from shm.contract import payloads

ROOT = Path(__file__).parents[2]

WORKER = {  # pump.h -> shm/stats.py, where the names are not the same but for their case
    "N_LONGEST_TURN": "longest_turn_ns",
    "N_ACCEPTED": "connections_accepted",
    "N_FAILED": "connections_failed",
    "N_IN": "deliveries_in",
    "N_OUT": "deliveries_out",
    "N_ABORTED": "aborted_in",
    "N_DROPPED": "dropped_presettled_out",
}
CORE = {
    "STAT_LONGEST": "longest_turn_ns",
    "STAT_DROPPED": "dropped_presettled",
    "STAT_STALE": "stale_records",
    "STAT_RECLAIMED": "workers_reclaimed",
    "STAT_LIVE": "live_deliveries",
    "STAT_DELAYED_1": "delayed_1s",
    "STAT_DELAYED_10": "delayed_10s",
    "STAT_ADMITTED": "connections_admitted",
    "STAT_BAD": "bad_records",
}


def enum(header: str, name: str) -> dict[str, int]:
    """The constants of an enum that gives each its number."""
    body = re.search(rf"enum {name} \{{(.*?)\}};", (ROOT / header).read_text(), re.DOTALL)
    assert body is not None
    text = re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL)
    return {word: int(number) for word, number in re.findall(r"(\w+) = (\d+)", text)}


@pytest.mark.parametrize(
    ("header", "name", "names", "first"),
    [("workers/state/pump.h", "counter", WORKER, 8), ("core/forwarder/tables.h", "core_stat", CORE, 40)],
)
def test_counters_have_the_places_that_statistics_name(
    header: str, name: str, names: dict[str, str], first: int
) -> None:
    """A counter read by name is the one that is written, and all of a process's are written by it."""
    places = {name: index for name, (index, _, _) in stats.COUNTERS.items()}
    written = {names.get(n, n.partition("_")[2].lower()): index for n, index in enum(header, name).items()}
    assert written.items() <= places.items()
    assert {n for n, index in places.items() if first <= index < first + 32} <= written.keys()


def test_no_two_counters_share_a_place() -> None:
    """Each would be told as the other one."""
    places = [index for index, _, _ in stats.COUNTERS.values()]
    assert len(places) == len(set(places))


@pytest.mark.parametrize("name", [n for n in vars(payloads) if n.startswith("C_")])
def test_control_kinds_are_those_of_the_records(name: str) -> None:
    """What a control record's ``state`` means is the same on both sides."""
    assert getattr(payloads, name) == getattr(native, name)


def test_every_control_kind_has_a_payload() -> None:
    """No kind of the record's header is unknown to the structures."""
    assert set(enum("shm/record.h", "routerd_control_kind").values()) == set(payloads.PAYLOADS)
