"""Guesses what somebody who has misspelled a word meant."""

from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like ``name``, ignoring case."""
    import difflib  # noqa: PLC0415  only who has found a mistake needs it

    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(name.lower()[:100], by_lower, n=1, cutoff=0.65)
    return by_lower[found[0]] if found else None
