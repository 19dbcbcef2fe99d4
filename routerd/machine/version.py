"""What is installed: the version of the program, the commit that it was built from, and the version of the engine.

Standard library only: setup.py runs this file to learn the commit that a package is built from.
"""

import platform
import subprocess
from pathlib import Path
from typing import Final

UNKNOWN: Final = "unknown"
HERE: Final = Path(__file__).resolve()
BAKED: Final = HERE.with_name("commit")  # only a package has this file
CHECKOUT: Final = HERE.parents[2]


def version() -> str:
    """Return the version of the installed program; ``unknown`` if it runs uninstalled."""
    return _version_of("routerd")


def engine() -> str:
    """Return the version of the AMQP engine, Proton; ``unknown`` if there is none."""
    return _version_of("python-qpid-proton")


def commit() -> str:
    """Return the commit's first twelve digits, with ``-dirty`` if files differ from it.

    In a checkout git tells; a package has it in a file; ``unknown`` anywhere else.
    """
    if (CHECKOUT / ".git").exists():
        return _asked()
    try:
        return BAKED.read_text("ascii").strip() or UNKNOWN
    except OSError:
        return UNKNOWN


def installed() -> dict[str, str]:
    """Return all versions by name, in the order in which the command line shows them."""
    return {"version": version(), "commit": commit(), "engine": engine(), "python": platform.python_version()}


def _version_of(distribution: str) -> str:
    from importlib import metadata  # noqa: PLC0415  it loads much, and few commands tell versions

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return UNKNOWN


def _asked() -> str:
    command = ["git", "-C", str(CHECKOUT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(  # noqa: S603  no shell
            command, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return UNKNOWN  # no git, or a checkout that git does not trust
    return done.stdout.strip()
