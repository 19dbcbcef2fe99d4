"""Whole numbers in texts of others: environment, files, names of files."""

from typing import Final

MOST_DIGITS: Final = 18  # what has more fits into no 64 bits, and int() refuses thousands


def whole(text: str | bytes) -> int | None:
    """The number that ASCII digits are; None: something else, or more than fits into 64 bits."""
    return int(text) if len(text) <= MOST_DIGITS and text.isascii() and text.isdigit() else None
