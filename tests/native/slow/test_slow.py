"""A client of link routes that takes nothing loses the links by which it holds up others, and nobody else does."""

from pathlib import Path

from tests.support.native.program import compiled, said


def test_who_takes_nothing_holds_up_nobody(tmp_path: Path) -> None:
    """Slow receivers stay as long as they take something, and so does everybody while the router is in the way."""
    said(compiled(Path(__file__).with_name("slow.c"), tmp_path))
