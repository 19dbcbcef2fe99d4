"""Attributes that have no effect beside others: each is warned of."""

import pytest

from routerd.config import parse

LISTENER = "listener {\n port: 0\n}\n"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("router {\n flightAddresses: yes\n}", "flightAddresses: has no effect without flightRecords; give some, or"),
        ("router {\n flightDirectory: /x\n}", "flightDirectory: has no effect without flightRecords; give some, or"),
        ("router {\n flightDirectory: /x\n flightAddresses: yes\n flightRecords: 1\n}", ""),
        ("flowLog {\n directory: /x\n compaction: no\n rawAge: 5\n}", "rawAge: has no effect without compaction: yes"),
        ("flowLog {\n directory: /x\n rawAge: 5\n}", ""),
    ],
)
def test_what_has_no_effect_is_warned_of(given: str, why: str) -> None:
    """It was taken, and ignored without a word."""
    warnings = [one.text for one in parse(f"{given}\n{LISTENER}", "f.conf").warnings]
    assert [why in text for text in warnings] == ([True] if why else [])
