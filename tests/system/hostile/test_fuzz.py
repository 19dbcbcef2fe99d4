"""Each way into the router is fuzzed for some seconds: conversations that are nearly right, by clients that are not.

``make chaos MINUTES=n`` does the same for as long as asked, with processes that are killed meanwhile.
"""

from collections.abc import Iterator

import pytest

from tests.support.hostile.fuzz import WAYS, Fuzzer
from tests.support.hostile.target import Target
from tests.support.hostile.verdict import Verdict
from tests.support.running import RunningRouter

SECONDS = 3.0
SEED = 1


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    return Target.made(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def router(target: Target) -> Iterator[RunningRouter]:
    """It holds nothing after all; its log may complain, within the bounds of the verdict."""
    router = RunningRouter(target.folder, target.configuration)
    try:
        yield router
        router.come_to_rest()
        router.end()
    finally:
        router.kill()


@pytest.mark.parametrize("way", WAYS)
def test_nobody_notices_a_fuzzer(router: RunningRouter, target: Target, way: str) -> None:
    """Whatever it says, on however many connections."""
    with Verdict(router):
        counted = Fuzzer(target, way, SEED).run(SECONDS)
    assert counted["connections"] > 5, counted
