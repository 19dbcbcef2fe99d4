"""The file of known applications, which request a table only once: the router reads it when it starts."""

import logging
import os
from pathlib import Path
from typing import Annotated, Final

import msgspec

from core.rmr.tables.decoding import fault
from core.rmr.tables.fields import is_endpoint

LOGGER = logging.getLogger("ROUTER_CORE")

# Endpoint (empty: unknown), control port, and where to connect (empty: nowhere). Each is host:port.
Known = list[tuple[str, str, str]]
_Row = Annotated[list[str], msgspec.Meta(min_length=2, max_length=3)]  # older files lack the third

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_MODE: Final = 0o600
LONGEST: Final = 4 << 20  # octets; 10,000 applications have less


def _known(row: list[str]) -> tuple[str, str, str]:
    endpoint, control, *dial = row
    return endpoint, control, dial[0] if dial else control


class Remembered:
    """The file of applications; an empty path means none. Its errors are logged once.

    A file with other content stays as it is, because its path was given by mistake or by a stranger.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._saved: Known = []
        self._said = False
        self._foreign = False

    def load(self) -> Known:
        """Return the applications in the file."""
        if self._path is None:
            return []
        try:
            found = self._path.stat()
            if found.st_uid not in (0, os.geteuid()):
                raise PermissionError("the file belongs to another user")
            if found.st_size > LONGEST:
                raise ValueError(f"the file is longer than {LONGEST} octets")
            if found.st_size:  # a crash of the machine leaves an empty file
                found_there = msgspec.json.decode(self._path.read_bytes(), type=list[_Row])
                self._saved = self._checked([_known(row) for row in found_there])
        except FileNotFoundError:
            pass
        except (OSError, ValueError, msgspec.MsgspecError, RecursionError) as error:
            self._foreign = True
            stays = "the file stays as it is and nothing is remembered; move it or configure another path"
            self._complain("read", f"{error}; {stays}")
        return self._saved

    def _checked(self, found: Known) -> Known:
        """Return the valid applications, because anybody may have changed the file."""
        known = [
            one for one in found if is_endpoint(one[1]) and not fault(one[0]) and (not one[2] or is_endpoint(one[2]))
        ]
        if len(known) < len(found):
            self._complain("read", f"{len(found) - len(known)} of its applications have no host:port")
        return known

    def save(self, known: Known) -> None:
        """Write the applications if they have changed."""
        if self._path is None or self._foreign or known == self._saved:
            return
        self._saved = known
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            beside.unlink(missing_ok=True)
            with open(os.open(beside, _NEW, _MODE), "wb") as file:
                file.write(msgspec.json.encode(known) + b"\n")
            os.replace(beside, self._path)
        except (OSError, UnicodeEncodeError) as error:
            self._complain("written", error)

    def _complain(self, what: str, error: object) -> None:
        if not self._said:
            LOGGER.warning("Applications of a route table: %s cannot be %s: %s", self._path, what, error)
        self._said = True
