"""Makes the model beside the tests importable: pytest's importlib mode adds no directory by itself."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
