"""Patterns of scopes, which find the scope in an address: regular expressions of RE2.

Addresses come from peers. RE2 goes through one once, whatever the pattern is; an engine that goes back in it
would let a peer stop a worker.
"""

from typing import Any

GROUPS = 1


def compile_scope_pattern(text: str) -> Any:
    """Return the compiled pattern; its ``search`` takes octets and returns a match or None.

    Raises ValueError with the reason.
    """
    import re2  # noqa: PLC0415 - 1 MB in each worker, and only route workers with a pattern need it

    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise ValueError(f"{text!r} is not a regular expression of RE2: {reason}") from None
    if pattern.groups != GROUPS:
        raise ValueError(f"{text!r} has {pattern.groups} groups")
    return pattern
