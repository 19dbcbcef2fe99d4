"""What a worker has given back to the system stays there when its core dies."""

from pathlib import Path

from tests.support.native.program import compiled, said

MORE_KB = 2048  # the tables that are gone take ten times as much


def test_a_new_core_brings_no_memory_back(tmp_path: Path) -> None:
    """Connections and links that are gone are not written to."""
    before, after = map(int, said(compiled(Path(__file__).with_name("core_death_memory.c"), tmp_path)).split())
    assert after - before < MORE_KB
