"""What holds for every unit test: none leaves the log of its process set up, where the next one's lines would show."""

import logging
from collections.abc import Iterator

import pytest

from routerd.log import log


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """Whoever configures the log does so for one test."""
    yield
    if any(map(_ours, logging.getLogger().handlers)):
        log.configure([], "test")  # files and the journal are closed
        log._system.close()
        for name in (*log.MODULES, None):
            logger = logging.getLogger(name)
            logger.handlers = [handler for handler in logger.handlers if not _ours(handler)]
            logger.setLevel(logging.WARNING if name is None else logging.NOTSET)
            logger.propagate = True


def _ours(handler: logging.Handler) -> bool:
    return type(handler).__module__.startswith("routerd")
