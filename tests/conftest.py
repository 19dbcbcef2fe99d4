"""What holds for every test."""

import gc

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

# A busy machine is no counterexample. The examples of a test are the same in every run, until it changes;
# `--hypothesis-profile=others` looks for others.
settings.register_profile("others", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("routerd", settings.get_profile("others"), derandomize=True)
settings.load_profile("routerd")

PIPELINE = "tests/pipeline"
# longest files first
FOLDERS = ["pipeline", "crash", "system", "fuzz", "native", "property", "simulation", "unit"]


class Files(LoadFileScheduling):
    """A file's tests run in one process; so do all that need Spark, which is started once."""

    def _split_scope(self, nodeid: str) -> str:
        return PIPELINE if nodeid.startswith(f"{PIPELINE}/") else super()._split_scope(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """Name the test that ended its process. It has failed; another process runs only what comes after it.

        xdist itself would try it again and again.
        """
        files = self.assigned_work[node]
        fatal = next((test for tests in files.values() for test, done in tests.items() if not done), None)
        for file, tests in list(files.items()):
            if fatal in tests:
                tests[fatal] = True
            if all(tests.values()):
                del files[file]
        super().remove_node(node)
        return fatal


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several processes: what takes long begins early, so that all come to an end together."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: FOLDERS.index(item.nodeid.split("/")[1]))


def pytest_collection_finish() -> None:
    """Garbage is looked for among what tests make, and not among hundreds of thousands of objects that stay."""
    gc.collect()
    gc.freeze()


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Files:
    """Of xdist: who distributes the tests."""
    return Files(config, log)
