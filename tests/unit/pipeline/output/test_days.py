"""Which days of a stream stay."""

from datetime import date

import pytest

from pipeline.output.days import first_kept


@pytest.mark.parametrize("keep", [800_000, 10**12])
def test_any_number_of_days_may_stay(keep: int) -> None:
    """Also more than there are days before the newest."""
    assert first_kept("2026-01-09", date(2026, 1, 9), keep) == "0001-01-01"
