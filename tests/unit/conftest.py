"""What tests of one thing share; the module beside the tests becomes importable."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from household import FakeChild, Home

from routerd.supervise import children as family_module
from routerd.supervise import spares as spares_module


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Home:
    """A family whose children are fakes."""
    for module in (family_module, spares_module):
        monkeypatch.setattr(module, "Child", FakeChild)
    return Home()
