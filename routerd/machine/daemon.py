"""Goes into the background, as SysV init scripts expect: the starter waits until the daemon serves.

starter ──fork──▶ session leader ──fork──▶ daemon
   ▲                                         │
   ╰──────── why it cannot, or SERVES ───────╯
"""

import os
import sys
from pathlib import Path
from typing import TextIO

_SERVES = "\0"  # no message contains it


class Daemon:
    """The daemon's end of the pipe to the starter.

    Until `serves`, prints to `sys.stderr` reach the starter's terminal; the log and children have /dev/null there.
    """

    def __init__(self, starter: TextIO) -> None:
        self._starter = starter
        sys.stderr = starter

    def serves(self) -> None:
        """Let the starter exit with status 0."""
        self._starter.write(_SERVES)
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # it stays open as long as the process lives
        self._starter.close()


def detach(pid_file: Path | None) -> Daemon:
    """Continue as a daemon with `/` as its directory; the calling process exits when the daemon serves or dies.

    `pid_file` gets the daemon's process id. Raises OSError if it cannot be written.
    """
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        os._exit(_wait(reader))
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
    daemon = Daemon(open(writer, "w", buffering=1, encoding="utf-8"))  # noqa: SIM115  # closed by serves
    if pid_file:
        pid_file.write_text(f"{os.getpid()}\n")
    os.chdir("/")
    return daemon


def _wait(reader: int) -> int:
    """Print the daemon's messages; return the starter's exit status."""
    with open(reader, encoding="utf-8", errors="replace") as said:
        text = said.read()
    serves = text.endswith(_SERVES)
    sys.stderr.write(text.removesuffix(_SERVES))
    sys.stderr.flush()
    return 0 if serves else 1
