"""Goes into the background, as SysV init scripts expect: the starter waits until the daemon serves.

starter ──fork──▶ session leader ──fork──▶ daemon
   ▲                                         │
   ╰──────── why it cannot, or SERVES ───────╯
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

_SERVES = "\0"  # no message contains it


class Daemon:
    """The daemon's end of the pipe to the starter.

    Until `serves`, prints to `sys.stderr` reach the starter's terminal; the log and children have /dev/null there.
    """

    def __init__(self, starter: TextIO, pid_file: TextIO | None) -> None:
        self._starter = starter
        self._pid_file = pid_file

    def serves(self) -> None:
        """Write the process id and let the starter exit with status 0."""
        if self._pid_file is not None:
            with suppress(OSError):  # a device has no length
                self._pid_file.truncate()
            self._pid_file.write(f"{os.getpid()}\n")
            self._pid_file.close()
        self._starter.write(_SERVES)
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # it stays open as long as the process lives
        self._starter.close()


def detach(pid_file: Path | None) -> Daemon:
    """Continue as a daemon with `/` as its directory; the calling process exits when the daemon serves or dies.

    `pid_file` gets the daemon's process id once it serves; until then it is as it was, since it may be that of a router
    which runs. Raises OSError if it cannot be written.
    """
    reader, writer = os.pipe()
    new = pid_file is not None and not pid_file.exists()
    if os.fork():
        os.close(writer)
        status = _wait(reader)
        if status and new and pid_file is not None:
            pid_file.unlink(missing_ok=True)
        os._exit(status)
    os.close(reader)
    os.setsid()
    if os.fork():
        os._exit(0)
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    if nowhere > 2:
        os.close(nowhere)
    starter = open(writer, "w", buffering=1, encoding="utf-8")  # noqa: SIM115  # closed by serves
    sys.stderr = starter
    # Opened now, while the process is the user who started it, and without loss of what is there.
    file = open(os.open(pid_file, os.O_WRONLY | os.O_CREAT, 0o666), "w") if pid_file else None  # noqa: SIM115  # closed by serves
    os.chdir("/")
    return Daemon(starter, file)


def _wait(reader: int) -> int:
    """Print the daemon's messages; return the starter's exit status."""
    with open(reader, encoding="utf-8", errors="replace") as said:
        text = said.read()
    serves = text.endswith(_SERVES)
    sys.stderr.write(text.removesuffix(_SERVES))
    sys.stderr.flush()
    return 0 if serves else 1
