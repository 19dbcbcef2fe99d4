"""Numbers in texts: whole ones from outside, such as the environment and file names, and those of things in our own."""

from typing import Final

_VOWELS: Final = frozenset("aeiou")
MOST_DIGITS: Final = 18  # any such number fits into 64 bits; int() refuses texts of thousands of digits


def whole(text: str | bytes) -> int | None:
    """Return the number in a text of at most `MOST_DIGITS` ASCII digits; None for any other text."""
    return int(text) if len(text) <= MOST_DIGITS and text.isascii() and text.isdigit() else None


def counted(number: int, one: str, more: str = "") -> str:
    """Return a number and what it counts: "1 entry", "2 entries"; ``more`` is a plural that is not regular."""
    return f"{number} {one if number == 1 else more or _plural(one)}"


def remaining(seconds: float) -> str:
    """Return a time that is left in the unit that tells something: "13.5 days", "5.0 hours", "12 minutes"."""
    for unit, name in ((86400.0, "days"), (3600.0, "hours")):
        if seconds >= unit:
            return f"{seconds / unit:.1f} {name}"
    return counted(max(1, round(seconds / 60)), "minute")


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2:-1] not in _VOWELS:
        return word[:-1] + "ies"
    return word + ("es" if word.endswith("s") else "s")
