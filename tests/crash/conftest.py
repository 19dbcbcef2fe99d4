"""Routers that are hurt while clients keep ledgers; the system tests' modules become importable."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "system")]
