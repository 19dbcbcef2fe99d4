"""Each way into the router is fuzzed for some seconds: conversations that are nearly right, by clients that are not.

``make chaos MINUTES=n`` does the same for as long as asked, with processes that are killed meanwhile.
"""

import pytest

from tests.support.hostile.fuzz import WAYS, Fuzzer
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import Verdict
from tests.support.running import RunningRouter

SECONDS = 0.8
SEED = 1


@pytest.mark.parametrize("way", WAYS)
def test_nobody_notices_a_fuzzer(attacked: RunningRouter, target: Target, way: str) -> None:
    """Whatever it says, on however many connections."""
    with Verdict(attacked):
        counted = Fuzzer(target, way, SEED).run(SECONDS)
    assert counted["connections"] > 5, counted
