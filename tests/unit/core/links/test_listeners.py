"""What the core knows of listeners, and shows: the workers tell which they serve."""

from types import SimpleNamespace
from typing import Any

from core.links.connections import Connections
from core.links.listeners import Listeners
from shm.contract.payloads import ConnectionClosed, ConnectionOpened, Served
from shm.statistics.board import Board, ListenerRow


def connections() -> Connections:
    nothing: Any = SimpleNamespace(
        gauge=lambda *_: None,
        now=1,
        leave=lambda *_: None,
        enter=lambda *_: None,
        was_denied=lambda *_: False,
        forget_worker=lambda *_: None,
    )
    return Connections(nothing, nothing)


def shown(listeners: Listeners) -> list[ListenerRow]:
    board = Board()
    listeners.show(board)
    return board.listeners


def test_who_serves_a_listener_is_shown() -> None:
    """One that no worker can serve is shown, too; one that the configuration no longer has is not."""
    listeners = Listeners(connections())
    assert listeners.heard(1, Served({"amqp": True, "amqps": False}))
    assert listeners.heard(0, Served({"amqp": True, "amqps": False}))
    assert shown(listeners) == [ListenerRow("amqp", [0, 1], 0), ListenerRow("amqps", [], 0)]
    listeners.forget_worker(1)
    assert shown(listeners) == [ListenerRow("amqp", [0], 0), ListenerRow("amqps", [], 0)]
    assert listeners.heard(0, Served({"amqp": True}))
    assert shown(listeners) == [ListenerRow("amqp", [0], 0)]
    assert not listeners.heard(0, ConnectionClosed(0, 1))


def test_its_connections_are_counted() -> None:
    """Open ones that came in: those of connectors are not its, and another one at the same index replaces it."""
    known = connections()
    listeners = Listeners(known)
    assert listeners.heard(0, Served({"amqp": True}))
    for index in range(3):
        known.opened(0, ConnectionOpened(index, 1, "c", "h", listener="amqp", number=index))
    known.opened(0, ConnectionOpened(2, 2, "c", "h", listener="amqp", number=3))
    known.opened(0, ConnectionOpened(4, 1, "c", "h", connector="out", number=4))
    assert shown(listeners) == [ListenerRow("amqp", [0], 3)]
    known.closed(0, ConnectionClosed(0, 1, ""))
    assert shown(listeners) == [ListenerRow("amqp", [0], 2)]
    known.forget_worker(0)
    assert shown(listeners) == [ListenerRow("amqp", [0], 0)]
    assert not known.by_listener
