"""Turns signals into bytes on a socket, which the main loop reads when it is ready.

Whoever starts the router may have left signals ignored or blocked (signal(7)): those that matter are as it needs them.
"""

import os
import signal
import socket
from types import FrameType

STOP = (signal.SIGINT, signal.SIGTERM)
ROLL = signal.SIGUSR1
HANDLED = (*STOP, signal.SIGHUP, ROLL)


class Signals:
    """Between `install` and `restore` no handled signal ends or interrupts the process, and each arrives.

    Children stay until they are reaped: with SIGCHLD ignored the kernel would forget how they ended (waitpid(2)).
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._terminal = next(filter(_is_controlling_terminal, (1, 2)), None)
        self._before = [(number, signal.getsignal(number)) for number in (*HANDLED, signal.SIGCHLD)]
        self._mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._wakeup_before = -1

    def install(self) -> None:
        self._wakeup_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in HANDLED:
            signal.signal(number, _nothing)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)

    def restore(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask_before)
        signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._before:
            signal.signal(number, handler)
        self._reader.close()
        self._writer.close()

    def fileno(self) -> int:
        return self._reader.fileno()

    def arrived(self) -> list[signal.Signals]:
        """Return the signals since the last call, in order."""
        try:
            return [signal.Signals(number) for number in self._reader.recv(256)]
        except BlockingIOError:
            return []

    def terminal_is_gone(self) -> bool:
        """Whether the process was started on a terminal that has been closed since."""
        return self._terminal is not None and not _is_controlling_terminal(self._terminal)


def _is_controlling_terminal(fd: int) -> bool:
    try:
        os.tcgetpgrp(fd)
    except OSError:
        return False
    return True


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the wake-up descriptor has the signal already, but a handler must exist for that."""
