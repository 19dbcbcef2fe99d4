"""Whole numbers in texts from outside: the environment, files and file names; and numbers of things in our own texts."""

from typing import Final

MOST_DIGITS: Final = 18  # any such number fits into 64 bits; int() refuses texts of thousands of digits


def whole(text: str | bytes) -> int | None:
    """Return the number in a text of at most `MOST_DIGITS` ASCII digits; None for any other text."""
    return int(text) if len(text) <= MOST_DIGITS and text.isascii() and text.isdigit() else None


def counted(number: float, one: str, more: str = "") -> str:
    """Return a number with the noun for it: "1 entry", "2 entries". Without ``more`` the plural of ``one`` ends in s."""
    return f"{number} {one if number == 1 else more or one + 's'}"
