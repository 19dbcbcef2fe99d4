"""What tests of the supervisor share."""

import pytest

from routerd.supervise import children as family_module
from routerd.supervise import spares as spares_module
from tests.support.beds.household import FakeChild, Home


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Home:
    """A family whose children are fakes."""
    for module in (family_module, spares_module):
        monkeypatch.setattr(module, "Child", FakeChild)
    return Home()
