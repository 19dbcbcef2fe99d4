"""What whoever starts the router has left of signals does not matter to it."""

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from routerd.machine.signals import HANDLED, Signals
from routerd.supervise.child import Child, Death


@pytest.fixture
def starter() -> Iterator[None]:
    """Its children are nobody's, and it hears no signal of ours; all is as before in the end."""
    before, mask = signal.signal(signal.SIGCHLD, signal.SIG_IGN), signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    yield
    signal.signal(signal.SIGCHLD, before)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@pytest.fixture
def signals(starter: None) -> Iterator[Signals]:
    signals = Signals()
    signals.install()
    yield signals
    signals.restore()


def child() -> Child:
    return Child([sys.executable, "-c", "import time; time.sleep(600)"], None, [], 0.0)


def test_a_child_is_there_until_it_is_reaped(signals: Signals) -> None:
    """With SIGCHLD ignored the kernel would forget how it ended, and who kills it afterwards would fail."""
    one = child()
    os.kill(one.pid, signal.SIGKILL)
    os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
    one.kill("it hangs")
    assert one.reap() == Death(one.pid, 0, "SIGKILL", "it hangs")


@pytest.mark.parametrize("number", HANDLED)
def test_a_signal_that_was_blocked_is_heard(signals: Signals, number: signal.Signals) -> None:
    """Otherwise nothing but SIGKILL would stop the router."""
    os.kill(os.getpid(), number)
    assert signals.arrived() == [number]


def test_what_was_before_comes_back(starter: None) -> None:
    """The process may be another's: a test, or a program that runs a router."""
    signals = Signals()
    signals.install()
    signals.restore()
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) >= set(HANDLED)
