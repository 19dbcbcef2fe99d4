"""Requests that wait for the agent: whose turn is next, and whose is dropped."""

from core.management.waiting import WAITING, Waiting


def test_connections_take_turns() -> None:
    """Who asks once waits for one request of each other connection at most."""
    waiting = Waiting()
    for number in range(100):
        waiting.put(1, number)
    waiting.put(2, "once")
    waiting.put(None, "gone")
    assert [waiting.get() for _ in range(4)] == [0, "once", "gone", 1]


def test_who_has_most_makes_room() -> None:
    """A client that asks faster than the agent answers loses its own requests, the latest first."""
    waiting = Waiting()
    assert {waiting.put(1, number) for number in range(WAITING)} == {None}
    assert waiting.put(1, "more") == "more"
    assert [waiting.put(2, number) for number in range(WAITING // 2)] == list(range(WAITING - 1, WAITING // 2 - 1, -1))
    assert waiting.put(2, "more") == "more"
    assert waiting.put(3, "first") == WAITING // 2 - 1
    assert [waiting.get() for _ in range(WAITING)][2] == "first"


def test_what_is_to_go_on_is_never_dropped() -> None:
    """A request whose answer has been worked out elsewhere has waited already."""
    waiting = Waiting()
    for number in range(WAITING):
        waiting.put(1, number)
    waiting.go_on("ready")
    assert waiting.get() == "ready"
    assert [waiting.get() for _ in range(WAITING)] == list(range(WAITING))
