"""The messages of a generated hour: when they come, and which of them are hot."""

import numpy as np
import pytest

from pipeline.generate.messages import Hour, Traffic
from pipeline.generate.scenario import Scenario

HOUR_S = 3600.0


def hour_of(scenario: Scenario, messages: int, hot: int) -> tuple[Traffic, Hour]:
    """The second hour of a log."""
    traffic = Traffic(scenario, np.random.default_rng(1))
    return traffic, traffic.hour(1, messages, hot)


@pytest.mark.parametrize("minutes", [0, 15])
def test_hot_messages_leave_the_times_of_the_others_alone(minutes: int) -> None:
    """The hot ones come within their minutes, the others during the whole hour; all are in order."""
    scenario = Scenario(types=0, faults=(), hot_path=0.5, hot_minutes=minutes)
    traffic, hour = hour_of(scenario, 40_000, 20_000)
    hot = np.array([flow.hot for flow in traffic.clients.flows])[hour.flow]
    assert hot.sum() == 20_000
    assert np.all(np.diff(hour.at) >= 0)
    for chosen, length in ((hot, minutes * 60.0 or HOUR_S), (~hot, HOUR_S)):
        quarters, _ = np.histogram(hour.at[chosen] - HOUR_S, 4, (0.0, length))
        assert quarters.sum() == 20_000
        assert quarters.min() > 4_500


def test_shares_that_are_a_whole_in_writing_are_a_whole() -> None:
    """Their sum as floating-point numbers is a little more than 1."""
    shares = Scenario(hot_address=0.33, hot_receiver=0.56, hot_path=0.11)
    assert shares.hot_address + shares.hot_receiver + shares.hot_path > 1
    assert shares.hot == 1
