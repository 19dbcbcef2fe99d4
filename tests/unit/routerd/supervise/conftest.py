"""What tests of the supervisor share."""

import pytest

from routerd.supervise import children as children_module
from routerd.supervise import spares as spares_module
from tests.support.beds.household import FakeChild, Home


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Home:
    """A supervisor whose children are fakes."""
    for module in (children_module, spares_module):
        monkeypatch.setattr(module, "Child", FakeChild)
    return Home()
