"""Printable forms of texts from outside, for logs, answers and terminals."""

import sys
from collections.abc import Iterable
from typing import Final

REASON_CHARACTERS: Final = 500  # of an exception's text, which may contain what a peer sent


def printable(text: str, longest: int = sys.maxsize) -> str:
    """Return the text as one line, cut to ``longest`` characters, with escapes for unprintable characters.

    An octet that is not UTF-8 (a lone surrogate of the error handler ``surrogateescape``) becomes ``\\xNN``.
    """
    cut = text if len(text) <= longest else f"{text[: longest - 3]}..."
    return cut if cut.isprintable() else "".join(map(_escaped, cut))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


def reason(error: BaseException) -> str:
    """Return an exception's type and text in one short line."""
    try:
        text = " ".join(str(error)[:REASON_CHARACTERS].split())
    except ValueError:  # such as for a number of thousands of digits
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like ``name``, ignoring case."""
    import difflib  # noqa: PLC0415  all processes have this module, and only who has found a mistake needs that one

    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower()[:100], by_lower, n=1, cutoff=0.65)
    return by_lower[found[0]] if found else None
