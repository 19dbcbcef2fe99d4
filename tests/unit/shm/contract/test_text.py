"""Texts that others wrote, as people may read them."""

import pytest

from shm.contract.text import printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", ""), ("a b", "a b"), ("\udcff", r"\xff"), ("\n\x7f\u2028", r"\n\x7f\u2028"), ("x" * 500, "x" * 397 + "...")],
)
def test_what_is_shown_can_be_printed(text: str, expected: str) -> None:
    assert printable(text, 400) == expected
