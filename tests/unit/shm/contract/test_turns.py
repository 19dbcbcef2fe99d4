"""What waits for a thread: whose turn is next, and whose is dropped."""

from queue import Empty

import pytest

from shm.contract.turns import Turns

MOST = 256


def test_keys_take_turns() -> None:
    """Who brings something once waits for one thing of each other key at most."""
    waiting = Turns()
    for number in range(100):
        waiting.put(1, number)
    waiting.put(2, "once")
    waiting.put(None, "nobody's")
    assert [waiting.get() for _ in range(4)] == [0, "once", "nobody's", 1]


def test_who_has_most_makes_room() -> None:
    """Who brings more than the thread takes loses his own, the latest first."""
    waiting = Turns()
    assert {waiting.put(1, number, MOST) for number in range(MOST)} == {None}
    assert waiting.put(1, "more", MOST) == "more"
    assert [waiting.put(2, number, MOST) for number in range(MOST // 2)] == list(range(MOST - 1, MOST // 2 - 1, -1))
    assert waiting.put(2, "more", MOST) == "more"
    assert waiting.put(3, "first", MOST) == MOST // 2 - 1
    assert len(waiting) == MOST
    assert [waiting.get() for _ in range(MOST)][2] == "first"


def test_what_waits_comes_before_the_end() -> None:
    """And the end again and again."""
    waiting = Turns()
    waiting.put(1, "last")
    waiting.end()
    assert [waiting.get(), waiting.get(), waiting.get(block=False)] == ["last", None, None]


def test_who_may_not_wait_learns_that_there_is_nothing() -> None:
    with pytest.raises(Empty):
        Turns().get(block=False)
