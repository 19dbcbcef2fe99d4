"""Printable forms of texts from outside, for logs, answers and terminals."""

import sys


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
