"""The commands of `routerd pipeline` for `spark-submit pipeline/__main__.py`, and `python -m pipeline`."""

import sys
from pathlib import Path

if __package__ in (None, ""):  # spark-submit runs this as a file, not as a part of its package
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from pipeline.cli import main

main()
