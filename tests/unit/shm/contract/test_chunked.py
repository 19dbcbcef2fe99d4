"""Tables by number that are listed while they change."""

from shm.contract.chunked import Chunked


def table(count: int) -> Chunked[str]:
    made = Chunked[str]()
    for number in range(count):
        made[number] = str(number)
    return made


def test_it_is_a_table() -> None:
    """What is set is found by its number until it is deleted; a handle's upper half tells generations apart."""
    made = table(3)
    made[1 << 32 | 1] = "next"
    assert (len(made), made.get(1), made.get(1 << 32 | 1), made.get(9)) == (4, "1", "next", None)
    made.remove(1)
    assert (len(made), made.get(1), made.get(1 << 32 | 1)) == (3, None, "next")


def test_pages_are_those_of_a_list() -> None:
    made = table(1000)
    for number in (*range(300), 511, 512, 700):
        made.remove(number)
    rows, all_of_them = made.rows(), list(made.rows())
    assert all_of_them == sorted(all_of_them, key=int)
    assert len(rows) == len(all_of_them) == 697
    for first in (None, 0, 1, 211, 212, 250, 696, 697, 2000, -1):
        for last in (None, 0, 5, 212, 213, 697, 5000, -1):
            assert rows[first:last] == all_of_them[first:last], (first, last)
    assert (rows[0], rows[300], rows[-1]) == (all_of_them[0], all_of_them[300], "999")


def test_it_may_change_while_it_is_listed() -> None:
    """What came later or has gone is left out; portions are small however many there are."""
    made = table(5000)
    rows, sizes = made.rows(), []
    for portion in rows.portions():
        sizes.append(len(portion))
        made.remove(5000 - len(sizes))
        made[6000 + len(sizes)] = "late"
    assert max(sizes) == 256
    assert sum(sizes) == 5000 - len(sizes) + 1


def test_what_is_empty_takes_no_memory() -> None:
    made = table(2000)
    for number in range(2000):
        made.remove(number)
    assert not made._chunks
