"""Whole numbers in texts from outside: the environment, files and file names."""

from typing import Final

MOST_DIGITS: Final = 18  # any such number fits into 64 bits; int() refuses texts of thousands of digits


def whole(text: str | bytes) -> int | None:
    """Return the number in a text of at most `MOST_DIGITS` ASCII digits; None for any other text."""
    return int(text) if len(text) <= MOST_DIGITS and text.isascii() and text.isdigit() else None
