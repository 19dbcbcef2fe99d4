"""Sets of records by their numbers."""

from collections.abc import Iterable

from pipeline.record_sets import Numbered, Records, Seen, covers, united


def missing(records: Records, others: Iterable[Numbered] = ()) -> int:
    """How many are missing among records, where others were seen, too."""
    seen = Seen()
    seen.add([*records, *others])
    return seen.missing(records)


def test_numbers_are_covered_as_sets() -> None:
    """By writer; ranges of which not all are there cover none but themselves."""
    one, other = ("R1", "b", 0), ("R1", "b", 1)
    whole = united([(*one, 5, 9, 5), (*one, 10, 12, 3), (*other, 1, 1, 1)])
    assert whole == [(*one, 5, 12, 8), (*other, 1, 1, 1)]
    assert covers(whole, [(*one, 6, 12, 7)])
    assert covers(whole, [])
    assert not covers(whole, [(*one, 4, 6, 3)])
    assert not covers(whole, [(*one, 12, 13, 2)])
    assert not covers(whole, [("R2", "b", 0, 5, 5, 1)])
    assert not covers([], whole)
    torn = [(*one, 1, 9, 4)]
    assert covers(torn, torn)
    assert not covers(torn, [(*one, 2, 3, 2)])
    assert missing([(*one, 5, 9, 5), (*one, 12, 15, 4), (*other, 1, 10, 9)]) == 3


def test_numbers_of_other_hours_are_not_missing() -> None:
    """A writer's numbers are in the order in which messages end; those between its last one before and these count."""
    one, other = ("R1", "b", 0), ("R1", "b", 1)
    records = [(*one, 8, 8, 1), (*one, 12, 13, 2)]
    assert missing(records) == 3
    assert missing(records, [(*one, 9, 9, 1), (*one, 11, 11, 1), (*one, 14, 20, 1)]) == 1
    assert missing(records, [(*one, 1, 4, 4), (*one, 9, 12, 4)]) == 3
    assert missing(records, [(*other, 1, 20, 20)]) == 3
    assert missing(records, [(*one, 1, 20, 9)]) == 0
    assert missing([], records) == 0


def test_what_touches_the_first_number_is_before_it() -> None:
    """Also where it was seen as one range with it, or the other hours came later."""
    one = ("R1", "b", 0)
    records = [(*one, 8, 9, 2), (*one, 11, 12, 2)]
    assert missing(records, [(*one, 5, 7, 3)]) == 1
    assert missing(records, [(*one, 1, 3, 3), (*one, 5, 12, 8)]) == 0
    assert missing(records, [(*one, 1, 3, 3), (*one, 6, 6, 1)]) == 2


def test_an_hour_that_is_seen_again_leaves_missing_what_is() -> None:
    """Also one with many gaps, of which compaction makes a range that only counts its records."""
    one = ("R1", "b", 0)
    exact: Records = [(*one, 1, 4, 4), (*one, 6, 9, 4)]
    counted: Records = [(*one, 1, 9, 8)]
    for first in (exact, counted):
        seen = Seen()
        seen.add(first)
        assert seen.missing(first) == 1
        now: Records = [*counted, (*one, 10, 12, 3)]
        seen.add(now)
        assert seen.missing(now) == 1


def test_writers_that_are_gone_are_forgotten() -> None:
    one, other = ("R1", "b", 0), ("R1", "c", 0)
    seen = Seen()
    seen.add([(*one, 1, 5, 5), (*other, 1, 5, 5)])
    seen.keep({other})
    now = [(*one, 7, 7, 1), (*other, 7, 7, 1)]
    seen.add(now)
    assert [seen.missing([writer]) for writer in now] == [0, 1]
