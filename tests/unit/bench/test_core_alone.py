"""The benchmark of the core alone runs in each of its scenarios."""

import pytest

from bench.core_alone import SCENARIOS, Scenario, measure


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_message_of_a_scenario_comes_out(scenario: Scenario) -> None:
    """It says itself if one does not."""
    assert measure(scenario, 1) > 0
