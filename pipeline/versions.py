"""Versions of the flow log's schema. Each only adds columns, so all earlier ones are read."""

import re
from typing import Final

from shm.contract.flow import VERSION

NEWEST: Final = int(VERSION.rpartition(".v")[2])


def version_of(name: str) -> int | None:
    """The version in a schema's name, such as 1 of ``routerd.flow.v1``; None: it is no flow log."""
    found = re.fullmatch(r"routerd\.flow\.v(\d{1,6})", name)
    return int(found[1]) if found else None


def known(version: int) -> bool:
    """Whether this version of routerd reads it."""
    return 1 <= version <= NEWEST
