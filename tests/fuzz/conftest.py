"""Stand-ins that the unit tests have, too, become importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
