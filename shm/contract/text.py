"""Texts that others wrote, as people may read them: in logs, answers and terminals."""

import sys


def printable(text: str, longest: int = sys.maxsize) -> str:
    """The text in one line and cut to ``longest`` characters; what cannot be printed stands there as escapes.

    An octet that was no UTF-8 (a lone surrogate of the error handler ``surrogateescape``) becomes ``\\xNN``.
    """
    cut = text if len(text) <= longest else f"{text[: longest - 3]}..."
    return cut if cut.isprintable() else "".join(map(_escaped, cut))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
