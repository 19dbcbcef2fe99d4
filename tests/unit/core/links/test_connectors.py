"""What the core knows of connectors, and shows: their workers tell it."""

from core.links.connectors import Connectors
from shm.contract.payloads import ConnectorState
from shm.statistics.board import ERROR, Board, ConnectorRow

HOST = "amqp://broker:5672"


def told(connectors: Connectors, status: str, message: str = "", worker: int = 0) -> None:
    assert connectors.heard(worker, ConnectorState("broker", status, message, [HOST, "amqp://other:5672"]))


def shown(connectors: Connectors) -> list[ConnectorRow]:
    board = Board()
    connectors.show(board)
    return board.connectors


def test_failures_are_counted_and_the_last_one_is_told() -> None:
    """Without the number of the attempt, which would make a new series of a metric each time; up, there is none."""
    connectors = Connectors()
    told(connectors, "CONNECTING")
    assert shown(connectors) == [ConnectorRow("broker", up=False, failures=0, error="")]
    told(connectors, "CONNECTING", "[C7] Connection to broker:5672 failed: refused")
    told(connectors, "CONNECTING", "[C8] Connection to broker:5672 failed: refused")
    error = "Connection to broker:5672 failed: refused"
    assert shown(connectors) == [ConnectorRow("broker", up=False, failures=2, error=error)]
    told(connectors, "SUCCESS", "[C9] Connection opened")
    assert shown(connectors) == [ConnectorRow("broker", up=True, failures=2, error="")]
    connectors.forget_worker(0)
    assert shown(connectors) == []
    told(connectors, "CONNECTING")
    assert shown(connectors)[0].failures == 2


def test_reason_and_advice_of_an_error_are_shown_whole() -> None:
    """They stand at its end; only what a peer makes longer still is cut."""
    connectors = Connectors()
    told(connectors, "CONNECTING", "[C7] " + (error := "refused " * 50 + "; ask for more"))
    assert shown(connectors)[0].error == error
    told(connectors, "CONNECTING", "[C8] " + "é" * ERROR)
    assert len(shown(connectors)[0].error.encode()) <= ERROR


def test_a_connector_that_is_gone_is_not_shown() -> None:
    """Unless another worker has it by now."""
    connectors = Connectors()
    told(connectors, "SUCCESS", worker=1)
    told(connectors, "GONE", worker=0)
    assert len(shown(connectors)) == 1
    told(connectors, "GONE", worker=1)
    assert (shown(connectors), connectors.find("broker")) == ([], None)
