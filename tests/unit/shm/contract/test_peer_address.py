"""What is told of certificates that are out of their time."""

from shm.contract import peer_address
from shm.contract.peer_address import out_of_time

DATE = "2026-11-20 10:00:00 UTC"


def test_each_refusal_is_told_once() -> None:
    """It is told of no other host."""
    peer_address._refused("one.example", 10, 0, DATE)
    peer_address._refused("two.example", 9, 1, DATE)
    assert out_of_time("one.example") == f"the peer's certificate expired on {DATE}"
    assert out_of_time("one.example") == ""
    assert out_of_time("two.example") == f"a certificate above the peer's is not valid before {DATE}"


def test_as_many_are_kept_as_there_is_room_for() -> None:
    """Hosts come from lists of peers, too."""
    for number in range(1000):
        peer_address._refused(f"{number}.example", 10, 0, DATE)
    assert [bool(out_of_time(f"{number}.example")) for number in (0, 935, 936, 999)] == [False, False, True, True]


def test_a_date_is_that_of_a_struct_tm() -> None:
    assert peer_address._date([5, 4, 3, 2, 0, 126, 0, 0, 0]) == "2026-01-02 03:04:05 UTC"
