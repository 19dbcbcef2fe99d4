"""A browser for the tests of the live page."""

from collections.abc import Iterator

import pytest

from tests.support.clients.browser import Browser


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One process for all tests: its start costs more CPU than most of them."""
    browser = Browser(tmp_path_factory.mktemp("chromium") / "profile")
    yield browser
    browser.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """A page of the test's own."""
    yield chromium
    chromium.new_page()
