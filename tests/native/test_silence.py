"""A connection whose peer takes no octets any more ends after a time, also where our CLOSE cannot be written."""

from pathlib import Path

from tests.support.native.program import compiled, said


def test_who_takes_nothing_is_sent_away(tmp_path: Path) -> None:
    """Whether the socket is full, or the worker does not read on before some output has gone; slow peers stay."""
    said(compiled(Path(__file__).with_name("silence.c"), tmp_path))
