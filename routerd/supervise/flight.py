"""Keeps what the flight recorder held when the core died, as a file for each death (docs/replay.md)."""

import logging
import os
import re
import time
from mmap import mmap
from pathlib import Path
from typing import Final

from routerd.log.log import NOTICE, event
from shm.contract.failures import start_thread
from shm.memory import flight
from shm.memory.flight import RecordingError

LOGGER = logging.getLogger("SERVER")

KEPT: Final = 8  # files of a router; the oldest goes
STATE: Final = "STATE_DIRECTORY"  # systemd.exec(5), StateDirectory=
SUFFIX: Final = ".flight"


def directory(configured: str | None) -> Path | None:
    """Return where recordings are kept, or None: nowhere."""
    if configured:
        return Path(configured)
    folder = os.environ.get(STATE, "").partition(":")[0]
    return Path(folder, "flight") if folder else None


def keep(ring: mmap, folder: Path | None, router: str, version: str, why: str) -> None:
    """Copy what a dead core's ring holds, and begin to write it to a file.

    The next core may begin at once. Nothing is written without a folder, or if the core has recorded nothing.
    """
    if folder is None:
        text = "The flight recorder's last records are lost, for there is no directory for them; set flightDirectory"
        event(LOGGER, logging.WARNING, text)
        return
    try:
        recording = flight.take(ring, router, version, why, running=False)
    except RecordingError as error:
        event(LOGGER, logging.WARNING, f"The flight recorder's records cannot be kept: {error}")
        return
    name = f"{re.sub(r'[^A-Za-z0-9._-]', '_', router)}-{time.strftime('%Y%m%dT%H%M%S')}-{recording.about.generation:06}"
    start_thread("flight recorder", _write, folder, f"{name}{SUFFIX}", recording)


def _write(folder: Path, name: str, recording: flight.Taken) -> None:
    path = folder / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        recording.write(path)
        prefix = name.rsplit("-", 2)[0]
        files = sorted(one for one in folder.glob(f"*{SUFFIX}") if one.name.rsplit("-", 2)[0] == prefix)
        for old in files[:-KEPT]:
            old.unlink(missing_ok=True)
    except OSError as error:
        text = f"The flight recorder's records cannot be written to {path}: {error.strerror}; set flightDirectory"
        event(LOGGER, logging.WARNING, text)
        return
    event(LOGGER, NOTICE, "The core's last records are kept: routerd replay runs them again", file=str(path))
