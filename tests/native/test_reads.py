"""A worker reads as many octets of a connection as its share of the turn allows, whatever they cost."""

from pathlib import Path

from tests.support.native.program import compiled, said


def test_octets_that_cost_much_are_read_in_small_parts(tmp_path: Path) -> None:
    """And those that cost little as before; a connection that changes is judged anew."""
    said(compiled(Path(__file__).with_name("reads.c"), tmp_path))
