"""Lines that peers cause: a flood of them is few lines, and no peer silences those about another one."""

import logging

import pytest

from shm.contract.complaints import MINUTE, MOST_KEYS, Complaints

LOGGER = logging.getLogger("SERVER")


def test_a_flood_is_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    """At its level one a minute, with how many were swallowed; at level debug each."""
    caplog.set_level("DEBUG", "SERVER")
    complaints = Complaints()
    for now in (0.0, 1.0, 59.0, 60.0):
        complaints.tell(now, LOGGER, logging.INFO, "connection of %s ended", f"10.0.0.1:{now:g}")
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert lines == [
        ("INFO", "connection of 10.0.0.1:0 ended"),
        ("DEBUG", "connection of 10.0.0.1:1 ended"),
        ("DEBUG", "connection of 10.0.0.1:59 ended"),
        ("INFO", "connection of 10.0.0.1:60 ended (and 2 more since the last such line)"),
    ]
    assert {record.filename for record in caplog.records} == {"test_complaints.py"}


def test_a_burst_is_told_one_by_one() -> None:
    """And then no more than the average allows."""
    complaints = Complaints(1.0, 3)
    assert [complaints.due(0, "x") for _ in range(5)] == [0, 0, 0, None, None]
    assert [complaints.due(3, "x") for _ in range(4)] == [2, 0, 0, None]


def test_a_flood_that_goes_on_is_told_at_the_pace() -> None:
    """After the burst, a line comes each second: nobody who looks at the log waits for the next burst."""
    complaints = Complaints(1.0, 50)
    told = [tenth // 10 for tenth in range(200) if complaints.due(tenth / 10, "x") is not None]
    assert told[:50] == [tenth // 10 for tenth in range(50)]
    assert [told.count(second) for second in range(8, 20)] == [1] * 12


def test_made_up_names_delay_newcomers_alone() -> None:
    """Memory is bounded, and so are the lines; keys known before have theirs."""
    complaints = Complaints()
    complaints.due(0, "known")
    lines = [complaints.due(1, f"peer {number}") for number in range(3 * MOST_KEYS)]
    assert len(lines) - lines.count(None) == MOST_KEYS  # with the line that those beyond share
    assert len(complaints) == MOST_KEYS + 1
    assert complaints.due(MINUTE, "known") == 0
    assert complaints.due(MINUTE + 1, "newcomer") == 0
