"""Which files a management request may name: those in the router's `managementDirs`, links and .. resolved.

Who writes the configuration file has an account on the machine; who sends a request need not. Without
`managementDirs` it depends on what happens to the file: what is served to strangers must not be where keys
and passwords lie, and what is written to not where others read their configuration.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from routerd.config import Config
from routerd.config.attribute import Attribute
from routerd.config.check import SECRETS
from routerd.translate.security import words

ROOT: Final = Path("/")
STATE: Final = "/var/lib/routerd"
SERVED: Final = {"httpRootDir": (f"{STATE}/www",)}
WRITTEN: Final = frozenset(("outputFile", "directory", "applications", "stash", "debugDumpFile"))
_LINE: Final = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2} |\{\"|[A-Z_]+ \([a-z]+\) ")
_LINE_BEGINS: Final = 64
NO_FILES: Final = ("", "stderr", "stdout", "syslog")


def out_of_reach(config: Config, attribute: Attribute, value: object) -> str:
    """What is wrong with a value for an attribute that a request gives; empty: nothing."""
    path = _path(attribute, value)
    if not path or "\0" in path:  # which is no value of any attribute
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
    """Why a file that the router would write to is not for it: somebody else's content stands there."""
    if name not in WRITTEN:
        return ""
    if config.file and found == Path(os.path.realpath(config.file)):
        return f"{path} is the configuration file; give another"
    if name == "outputFile" and not looks_like_log(found):
        return f"{path} holds something else than lines of a log; give another, or move it away"
    return ""


def looks_like_log(file: Path) -> bool:
    """Whether lines of a log may follow: there is no file, or an empty one, or it begins with such lines."""
    try:
        with file.open("rb") as there:
            begin = there.read(_LINE_BEGINS)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return not begin or _LINE.match(begin) is not None


def _path(attribute: Attribute, value: object) -> str:
    """The file that a value names, if it names one."""
    if not isinstance(value, str):
        return ""
    if attribute.name in SECRETS:
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
