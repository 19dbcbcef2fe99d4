"""Marks a line for the journal with its priority in front, `<3>`: sd-daemon(3), systemd.exec(5).

The journal removes the mark and keeps the time of a line itself.
"""

import logging
import os
import syslog
from typing import Final

from shm.memory.journal import NOTICE, TRACE

# level → syslog priority; every other level is critical
_PRIORITIES: Final = {
    TRACE: syslog.LOG_DEBUG, logging.DEBUG: syslog.LOG_DEBUG, logging.INFO: syslog.LOG_INFO,
    NOTICE: syslog.LOG_NOTICE, logging.WARNING: syslog.LOG_WARNING, logging.ERROR: syslog.LOG_ERR,
}  # fmt: skip
STDOUT: Final = 1
STDERR: Final = 2


def priority(level: int) -> int:
    """Return the syslog priority of a level."""
    return _PRIORITIES.get(level, syslog.LOG_CRIT)


def is_journal(descriptor: int) -> bool:
    """Whether a descriptor leads to the journal: JOURNAL_STREAM must name its device and inode.

    The variable alone proves nothing: whoever started the router may have redirected the stream.
    """
    device, _, inode = os.environ.get("JOURNAL_STREAM", "").partition(":")
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return (device, inode) == (str(status.st_dev), str(status.st_ino))


def marked(text: str, level: int) -> str:
    """Return the text with the priority in front of each line."""
    return "\n".join(f"<{priority(level)}>{line}" for line in text.split("\n"))


def for_stderr(text: str, level: int) -> str:
    """Return the text for standard error: marked if that leads to the journal."""
    return marked(text, level) if is_journal(STDERR) else text
