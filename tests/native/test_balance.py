"""Workers share connections by how many each has, whatever becomes of those that are refused."""

from pathlib import Path

from tests.support.native.program import compiled, said


def test_refused_connections_push_nobody_to_one_worker(tmp_path: Path) -> None:
    """During a flood of them, after one, and where one worker has no place left."""
    said(compiled(Path(__file__).with_name("balance.c"), tmp_path))
