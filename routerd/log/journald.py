"""Lines that reach the journal by a stream say their priority in front, `<3>`: sd-daemon(3), systemd.exec(5).

The journal itself keeps the time of a line and takes the mark away.
"""

import logging
import os
import syslog
from typing import Final

from shm.journal import NOTICE, TRACE

# level → syslog priority; critical is what is left
_PRIORITIES: Final = {
    TRACE: syslog.LOG_DEBUG, logging.DEBUG: syslog.LOG_DEBUG, logging.INFO: syslog.LOG_INFO,
    NOTICE: syslog.LOG_NOTICE, logging.WARNING: syslog.LOG_WARNING, logging.ERROR: syslog.LOG_ERR,
}  # fmt: skip
STDOUT: Final = 1
STDERR: Final = 2


def priority(level: int) -> int:
    """The syslog priority of a level."""
    return _PRIORITIES.get(level, syslog.LOG_CRIT)


def is_journal(descriptor: int) -> bool:
    """Whether what is written there goes to the journal: JOURNAL_STREAM names device and inode, but who has
    started the router may have put something else there since."""
    device, _, inode = os.environ.get("JOURNAL_STREAM", "").partition(":")
    try:
        status = os.fstat(descriptor)
    except OSError:
        return False
    return (device, inode) == (str(status.st_dev), str(status.st_ino))


def marked(text: str, level: int) -> str:
    """The text with the priority in front of each line."""
    return "\n".join(f"<{priority(level)}>{line}" for line in text.split("\n"))


def for_stderr(text: str, level: int) -> str:
    """The text as standard error takes it: marked if that is the journal."""
    return marked(text, level) if is_journal(STDERR) else text
