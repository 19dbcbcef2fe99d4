"""The page for those in trouble names every error condition and every column that there is."""

import re
from pathlib import Path

from routerd.cli.views import ROUTER, VIEWS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
CONDITION = re.compile(r'"((?:amqp|qd|routerd):[a-z][a-z:-]*)"')
SECTIONS = re.compile(r":(?:list|map|binary)$")  # what part 3.2 of AMQP calls types: no errors


def test_every_condition_is_explained() -> None:
    """A table row for each that a source names, and none for others."""
    sources = [file for folder in ("core", "shm", "workers") for file in (ROOT / folder).rglob("*")]
    texts = [file.read_text() for file in sources if file.suffix in (".py", ".pyx", ".pxi", ".h") or _ours(file)]
    named = {one for text in texts for one in CONDITION.findall(text) if not SECTIONS.search(one)}
    explained = set(re.findall(r"(?m)^\| `((?:amqp|qd|routerd):[^`]+)` \|", PAGE))
    assert named
    assert explained == named


def _ours(file: Path) -> bool:
    return file.suffix == ".c" and not file.with_suffix(".pyx").exists()  # Cython writes the others


def test_every_column_is_explained() -> None:
    """Of each view of `routerd stat`."""
    table = PAGE.partition("## Columns of")[2].partition("\n## ")[0]
    explained = {name for row in re.findall(r"(?m)^\| (`.*?) \|", table) for name in re.findall(r"`([^`]+)`", row)}
    assert explained == {cell.header for view in VIEWS.values() for cell in (ROUTER, *view.cells)}
