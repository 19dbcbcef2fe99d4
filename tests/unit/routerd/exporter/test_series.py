"""A scrape whose clients, of the router and of the exporter, choose unlucky words."""

import pytest

from shm.memory import segment
from shm.statistics import board
from shm.statistics.board import AddressRow, Board, ConnectionRow, ListenerRow, Outcomes
from tests.unit.routerd.exporter.test_metrics import families, scrape, segments, value

__all__ = ["segments"]  # a fixture


def test_nobody_makes_a_series_twice(segments: segment.Segments) -> None:
    """A scraper keeps one of them, whichever. A client may call an address as the exporter calls all others."""
    rows = [AddressRow(name, "b", 6, 1, 2, Outcomes(2)) for name in ("a", "(other)")]
    doors = [ListenerRow(name, [0], 3) for name in ("", "(unnamed)")]
    segments.board().write(board.encode(Board(rows, 44, listeners=doors, other_outcomes=Outcomes(5))))
    found = families(scrape(segments, http={"": 1, "(unnamed)": 2}))
    for family in found.values():
        series = [(sample.name, tuple(sorted(sample.labels.items()))) for sample in family.samples]
        assert len(set(series)) == len(series)
    assert value(found, "routerd_address_deliveries_total", address="(other)") == 50
    assert value(found, "routerd_address_settled_deliveries_total", address="(other)", outcome="accepted") == 7
    assert value(found, "routerd_listener_connections", listener="(unnamed)") == 9


def test_a_terminal_is_shown_no_escapes(segments: segment.Segments) -> None:
    """Whoever runs curl sees what a client calls its container, and texts that look alike are one series."""
    rows = [AddressRow(name, "b", 6, 1, 2, Outcomes(2)) for name in ("a\x1b[2J", "a\\x1b[2J")]
    clients = [ConnectionRow(0, name, "\x9bhost", "normal", "u\x07") for name in ("c\x1b", "c\\x1b")]
    segments.board().write(board.encode(Board(rows, 44, connections=clients)))
    answer = scrape(segments, connections=["1"])
    assert all(line.isprintable() for line in answer.body.decode().split("\n"))
    found = families(answer)
    assert value(found, "routerd_address_deliveries_total", address="a\\x1b[2J") == 12
    (sample,) = found["routerd_connection_info"].samples
    assert (sample.labels["container"], sample.labels["host"], sample.labels["user"]) == (
        "c\\x1b",
        "\\x9bhost",
        "u\\x07",
    )


@pytest.mark.parametrize("accept", ["application/openmetrics-text; version=x", "text/plain; version=1.x"])
def test_a_version_that_makes_no_sense_is_none(segments: segment.Segments, accept: str) -> None:
    """Who says nothing that is understood gets the text (RFC 9110, 12.5.1)."""
    answer = scrape(segments, accept=[accept])
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    assert families(answer)
