"""Numbers in texts."""

import pytest

from shm.contract.numbers import counted


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (0, ("delivery",), "0 deliveries"),
        (1, ("delivery",), "1 delivery"),
        (2, ("worker",), "2 workers"),
        (2, ("key",), "2 keys"),
        (2, ("hot day",), "2 hot days"),
        (3, ("process",), "3 processes"),
        (1, ("sender has", "senders have"), "1 sender has"),
        (2, ("sender has", "senders have"), "2 senders have"),
    ],
)
def test_a_number_comes_with_what_it_counts(number: int, words: tuple[str, ...], text: str) -> None:
    assert counted(number, *words) == text
