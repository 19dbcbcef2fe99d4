"""The stack of a crash in native code is told, unless a former crash of that place has just told one."""

import faulthandler
import time
from collections.abc import Callable, Iterator

import pytest

from routerd import process
from routerd.supervise.restart_policy import CRASHES

Begun = list[Callable[[], None]]


@pytest.fixture(autouse=True)
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[Begun]:
    """What threads were begun for: the test does it."""
    works: Begun = []
    monkeypatch.setattr(process, "start_thread", lambda _, work, again: works.append(work) or works)
    before = faulthandler.is_enabled()
    faulthandler.enable()
    yield works
    (faulthandler.enable if before else faulthandler.disable)()


@pytest.mark.parametrize("known", [[], ["SIGKILL"], ["SIGTERM", "SIGXCPU", "KeyError", "hung"]])
def test_who_was_killed_has_left_no_stack_and_silences_none(known: list[str], begun: Begun) -> None:
    """For want of memory, because it hung, by an operator: the next crash is told."""
    process.spare_stacks(known)
    assert faulthandler.is_enabled()
    assert not begun


@pytest.mark.parametrize("signal", sorted(CRASHES))
def test_a_crash_silences_the_stacks_of_the_next_minute_only(
    signal: str, begun: Begun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that lives longer than that tells of its crash in full."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    process.spare_stacks(["KeyError", signal])
    assert not faulthandler.is_enabled()
    (later,) = begun
    later()
    assert faulthandler.is_enabled()
    assert slept == [60.0]


def test_who_has_no_standard_error_tells_no_stack_later_either(begun: Begun) -> None:
    faulthandler.disable()
    process.spare_stacks(["SIGSEGV"])
    assert not begun
