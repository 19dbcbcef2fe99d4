"""Files that a management request may name: those in the router's `managementDirs`, links and `..` resolved.

The author of the configuration file has an account on the machine; the sender of a request may have none.
Without `managementDirs`, files served to clients stay away from keys and passwords, and files that the
router writes stay away from other programs' configuration.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from routerd.config import Config
from routerd.config.entities.attribute import Attribute
from routerd.config.formats.source import octets, words

ROOT: Final = Path("/")
STATE: Final = "/var/lib/routerd"
SERVED: Final = {"httpRootDir": (f"{STATE}/www",)}
WRITTEN: Final = frozenset(("outputFile", "directory", "applications", "stash", "debugDumpFile", "flightDirectory"))
_LINE: Final = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2} |\{\"|[A-Z_]+ \([a-z]+\) ")
_LINE_BEGINS: Final = 64
NO_FILES: Final = ("", "stderr", "stdout", "syslog")


def out_of_reach(config: Config, attribute: Attribute, value: object) -> str:
    """Return what is wrong with the file that a request names; empty if nothing is."""
    path = _path(attribute, value)
    if not path or "\0" in path:  # no attribute takes a NUL
        return ""
    allowed = tuple(_allowed(config, attribute.name))
    found = Path(os.path.realpath(path))
    if any(found.is_relative_to(os.path.realpath(one)) for one in allowed):
        return _taken(config, attribute.name, path, found)
    return (
        f"{path} is in none of the directories that a management request may name ({', '.join(allowed)}); "
        "give a place there, or have managementDirs of the router list it"
    )


def _taken(config: Config, name: str, path: str, found: Path) -> str:
    """Return why the router must not write to a file: it has other content."""
    if name not in WRITTEN:
        return ""
    if config.file and found == Path(os.path.realpath(config.file)):
        return f"{path} is the configuration file; give another"
    if name == "outputFile" and not looks_like_log(found):
        return f"{path} contains something other than log lines; give another file, or move this one away"
    return ""


def looks_like_log(file: Path) -> bool:
    """Whether log lines may be appended: the file is missing, empty, or begins with log lines."""
    try:
        begin = octets(file, _LINE_BEGINS)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return not begin or _LINE.match(begin) is not None


def _path(attribute: Attribute, value: object) -> str:
    """Return the file that a value names; empty if it names none."""
    if not isinstance(value, str):
        return ""
    if attribute.secret:
        kind, _, rest = value.partition(":")
        return rest if kind == "file" else ""
    return value if attribute.kind == "path" and value not in NO_FILES else ""


def _allowed(config: Config, name: str) -> Iterator[str]:
    if config.router.management_dirs is not None:
        yield from words(config.router.management_dirs)
        return
    if name in SERVED:
        yield from SERVED[name]
        return
    home = Path(os.path.realpath(config.file)).parent if config.file else ROOT
    if home != ROOT and (name not in WRITTEN or Path("/etc") not in (home, *home.parents)):
        yield str(home)
    yield from ("/var/log/routerd", STATE) if name in WRITTEN else ("/etc/routerd", STATE)
