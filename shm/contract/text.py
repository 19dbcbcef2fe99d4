"""Printable forms of texts from outside, for logs, answers and terminals."""

import sys
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


def cause(error: Exception) -> str:
    """Return why a file cannot be used, without its name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def reason(error: BaseException) -> str:
    """Return an exception's type and text in one short line."""
    try:
        text = " ".join(str(error)[:REASON_CHARACTERS].split())
    except ValueError:  # such as for a number of thousands of digits
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
