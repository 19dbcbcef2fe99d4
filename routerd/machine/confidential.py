"""Secrets in the environment: set-ups hand them to the processes that need them, and no child inherits them.

The environment with which a process was started stays readable in /proc/PID/environ for every process of
the same user as long as the process lives.
"""

import os
from typing import Final, TypeVar

import msgspec

E = TypeVar("E", bound=msgspec.Struct)

FROM: Final = "env:"

_secret: set[str] = set()  # variables that some configuration since the start took a password from


def resolved(entity: E, field: str) -> E:
    """Return an entity with its password for a set-up: `env:NAME` becomes the value of that variable."""
    password = getattr(entity, field) or ""
    name = password.removeprefix(FROM)
    if name == password or name not in os.environ:
        return entity  # the process that uses it reports the missing variable
    _secret.add(name)
    return msgspec.structs.replace(entity, **{field: f"pass:{os.environ[name]}"})


def environment() -> dict[str, str]:
    """Return the environment of children, which lacks all variables that hold passwords."""
    return {name: value for name, value in os.environ.items() if name not in _secret}
