"""Secrets that the environment holds: who needs one is told it, and no child has them in its environment.

What a process was started with stays readable in /proc/PID/environ as long as it lives, for every process of
that user, used or not.
"""

import os
from typing import Final

FROM: Final = "env:"

_told: set[str] = set()  # variables that passwords are taken from, of all configurations there were


def told(password: str) -> str:
    """A configured password as those are told it who use it: what is in the environment, by its value."""
    name = password.removeprefix(FROM)
    if name == password or name not in os.environ:
        return password  # who wants to use it says that it is not there
    _told.add(name)
    return f"pass:{os.environ[name]}"


def environment() -> dict[str, str]:
    """Of children: without the variables that passwords are taken from."""
    return {name: value for name, value in os.environ.items() if name not in _told}
