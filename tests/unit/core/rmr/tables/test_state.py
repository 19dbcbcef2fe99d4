"""Tables in use: what installations make of them; tables written as records and read again."""

import random

import pytest

from core.rmr.active.compiled import compacted, updated
from core.rmr.tables.lookup import winner
from core.rmr.tables.parser import Parser, Result
from core.rmr.tables.state import in_force
from core.rmr.tables.table import MeidMap, Table
from core.rmr.tables.writing import (
    LONGEST_UPDATE,
    PAUSE,
    Text,
    clean_id,
    difference,
    entries,
    map_lines,
    table_lines,
    update_lines,
)
from tests.support.values.table_use import Use


def read(*lines: str) -> Result:
    """The one table, update or map in some records."""
    (found,) = Parser().feed("\n".join(line for line in lines if line != PAUSE) + "\n")
    return found


def table(*lines: str, frame: str = "newrt", table_id: str = "t") -> Table:
    found = read(f"{frame}|start|{table_id}", *lines, f"{frame}|end|{len(lines)}")
    assert isinstance(found, Table), found
    return found


def meids(*lines: str) -> MeidMap:
    found = read("meid_map|start|m", *lines, f"meid_map|end|{len(lines)}")
    assert isinstance(found, MeidMap)
    return found


def leads(found: Table | None, key: tuple[int, int], sender: str = "") -> str:
    """Where messages of a key go; empty: nowhere."""
    assert found is not None
    entry = winner(found, key, sender)
    return "" if entry is None else str(entry.groups)


def test_a_new_table_takes_the_place_of_the_entries_and_keeps_the_owners() -> None:
    """Facts rmr 6: newrt begins without entries and with the whole map."""
    use = Use().apply(table("mse|1|-1|a:1")).apply(meids("mme_ar|a:1|x y"))
    use = use.apply(table("mse|2|-1|b:1", table_id="u"))
    assert leads(use.table, (1, -1)) == ""
    assert leads(use.table, (2, -1)) == "b:1"
    assert use.owners == {"x": "a:1", "y": "a:1"}
    assert use.table is not None
    assert use.table.table_id == "u"


def test_an_update_changes_a_copy_of_the_table() -> None:
    """What it does not name stays, `del` takes away, and the former table is what it was."""
    first = Use().apply(table("mse|1|-1|a:1", "mse|2|-1|a:1", "mse|3|-1|%meid"))
    second = first.apply(table("mse|1|-1|b:1", "del|2|-1", "mse|4|7|a:1", frame="updatert"))
    assert [leads(second.table, (mt, -1)) for mt in (1, 2, 3)] == ["b:1", "", "%meid"]
    assert leads(second.table, (4, 7)) == "a:1"
    assert [leads(first.table, (mt, -1)) for mt in (1, 2, 3)] == ["a:1", "a:1", "%meid"]


def test_a_map_changes_a_copy_of_the_map() -> None:
    """Owners are added, replaced and taken away."""
    first = Use().apply(meids("mme_ar|a:1|x y z"))
    second = first.apply(meids("mme_ar|b:1|y w", "mme_del|z"))
    assert second.owners == {"x": "a:1", "y": "b:1", "w": "b:1"}
    assert first.owners == {"x": "a:1", "y": "a:1", "z": "a:1"}


def test_rows_behind_which_one_for_everybody_stands_are_not_in_force() -> None:
    """Last applicable entry wins, so the former of equals never does."""
    found = table("mse|1|5|a:1", "mse|1,s:1|5|b:1", "mse|1|5|c:1", "mse|1,s:1|5|d:1", "mse|1,s:1|5|e:1", "del|9|9")
    assert in_force(found) == [2, 4]
    assert [str(found.row(at)) for at in in_force(found)] == ["mse|1|5|c:1", "mse|1,s:1|5|e:1"]


def random_table(dice: random.Random, frame: str = "newrt") -> Table:
    lines = []
    for _ in range(dice.randrange(12)):
        senders = "".join(f",{dice.choice(['s:1', 'r:1'])}" for _ in range(dice.choice([0, 0, 1, 2])))
        key = f"{dice.randrange(3)}{senders}|{dice.randrange(-1, 2)}"
        lines.append(f"del|{key}" if dice.random() < 0.2 else f"mse|{key}|{dice.choice(['a:1,b:1', 'c:1', '%meid'])}")
    return table(*lines, frame=frame)


KEYS = [(mt, sid) for mt in range(3) for sid in range(-1, 2)]


@pytest.mark.parametrize("seed", range(200))
def test_tables_as_records_are_the_same_tables(seed: int) -> None:
    """Compacted, written whole, or as what has changed: every key leads every sender to the same place."""
    dice = random.Random(seed)  # noqa: S311 - a table, no secret
    one, other = random_table(dice), random_table(dice)
    update = random_table(dice, "updatert")
    merged = updated(one, update)
    whole = read(*table_lines(merged, "w"))
    assert isinstance(whole, Table)
    rows = difference(one, other)
    changed = other
    if rows is not None:
        found = read(*update_lines(rows, "d"))
        assert isinstance(found, Table)
        changed = updated(one, found)
    again = read(*update_lines(entries(update), "e"))
    assert isinstance(again, Table)
    for key in KEYS:
        for sender in ("", "s:1", "r:1", "q:1"):
            expected = leads(merged, key, sender)
            assert leads(compacted(merged, 0), key, sender) == expected
            assert leads(whole, key, sender) == expected
            assert leads(updated(one, again), key, sender) == expected
            assert leads(changed, key, sender) == leads(other, key, sender)


def test_a_small_change_of_a_table_is_short_and_a_large_one_is_none() -> None:
    """An entry that is another one is one record; tables that have little in common are sent whole."""
    before = table(*(f"mse|{mt}|-1|a:1" for mt in range(100)))
    after = table(*(f"mse|{mt}|-1|a:{1 + (mt == 7)}" for mt in range(99)))
    assert difference(before, after) == ["mse|7|-1|a:2", "del|99|-1"] or difference(before, after) == [
        "del|99|-1",
        "mse|7|-1|a:2",
    ]
    assert difference(before, table(*(f"mse|{mt}|-1|b:1" for mt in range(10)))) is None
    long = table(*(f"mse|{mt}|-1|a:1" for mt in range(LONGEST_UPDATE + 1)))
    assert difference(long, long) is None


def test_a_map_record_names_at_most_127_managed_entities() -> None:
    """M9: the library loses the others."""
    owners = {f"m{number}": "a:1" if number % 3 else "b:1" for number in range(1000)}
    gone = {f"g{number}" for number in range(128)}
    lines = [line for line in map_lines(owners, gone, "m") if line != PAUSE]
    assert max(len(line.split("|")[-1].split()) for line in lines) == 127
    found = read(*lines)
    assert isinstance(found, MeidMap)
    assert found.owners == owners
    assert found.deleted == gone


def test_a_text_is_written_in_pieces_of_whole_records() -> None:
    """Records never span messages."""
    found = table(*(f"mse|{mt}|-1|a:1,b:2" for mt in range(500)))
    text = Text("w", table_lines(found, "w"), piece=300)
    while not text.complete:
        text.write()
    assert all(piece.endswith(b"\n") and len(piece) < 340 for piece in text.pieces)
    again = list(Parser().feed(b"".join(text.pieces).decode()))
    assert isinstance(again[0], Table)
    assert len(again[0]) == 500


def test_an_id_has_no_characters_that_records_are_made_of() -> None:
    """M9: no # and | in ids."""
    assert clean_id(" a|b#c\nd ") == "a_b_c_d"
