"""A QUERY chooses rows: by value, by text, in an order; the answer says how many there are."""

from typing import Any

import pytest

from core.management import choice, entity_type
from core.management.choice import Choice
from shm.contract.management import PREFIX
from tests.support.beds.agent import Bed

LINKS = PREFIX + "router.link"


def asked(bed: Bed, names: list[str], entity: str = LINKS, **choice: Any) -> tuple[list[list[Any]], int]:
    properties = {name: choice.pop(name) for name in ("offset", "count") if name in choice}
    status, body = bed.ask("QUERY", {"attributeNames": names} | choice, entityType=entity, **properties)
    assert status == 200, body
    return body["results"], body["total"]


def test_by_value(bed: Bed) -> None:
    """Each attribute has to have its value."""
    assert asked(bed, ["name"], where={"linkDir": "in", "connectionId": "4"}) == ([["to"]], 1)
    assert asked(bed, ["name"], where={"linkDir": "in", "connectionId": "5"}) == ([], 0)


def test_by_least_value(bed: Bed) -> None:
    """What only workers know is asked of them for all links; without it a text is no number."""
    bed.seen = {2: (0, 7, 0, 0)}
    assert asked(bed, ["name"], atLeast={"creditAvailable": 8}) == ([["to"]], 1)
    assert asked(bed, ["name"], atLeast={"name": 1}) == ([], 0)
    assert bed.asked == [[2]]


def test_by_a_least_value_of_any_number() -> None:
    """A fraction is a number; a row without a value has none, however small it may be."""
    rows, reads = [-2, 1.5, 2, None, "3"], {"value": lambda row: row}
    found = {least: Choice(at_least={"value": least}).chosen(rows, lambda row: row, reads, []) for least in (1, -1, -2)}
    assert found == {1: [1.5, 2], -1: [1.5, 2], -2: [-2, 1.5, 2]}


def test_by_text(bed: Bed) -> None:
    """Part of a requested attribute, in any case; numbers are no text."""
    assert asked(bed, ["name"], search="FRO") == ([["from"]], 1)
    assert asked(bed, ["name", "owningAddr"], search="s.UK") == ([["to", "M0news.uk"], ["from", "M0news.uk"]], 2)
    assert asked(bed, ["creditAvailable"], search="250") == ([], 0)
    assert asked(bed, ["no"], search="fro") == ([], 0)


def test_without_beginnings(bed: Bed) -> None:
    """An attribute that begins with one of them, or has no value, is left out or kept."""
    assert asked(bed, ["name"], without={"name": ["x", "t"]}) == ([["from"]], 1)
    assert asked(bed, ["name"], without={"peer": ["x"]})[1] == 2


@pytest.mark.parametrize("descending", [False, True])
def test_many_are_sorted_some_hundreds_at_a_time(descending: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of all at once, also among equals; the core's thread may have the interpreter lock in between."""
    sizes: list[int] = []

    def counted(things: list[Any], **order: Any) -> list[Any]:
        sizes.append(len(things))
        return sorted(things, **order)

    rows = [(i * 7919 % 1234 // 3, i) for i in range(1234)]
    monkeypatch.setattr(choice, "sorted", counted, raising=False)
    asked = Choice(order_by="value", descending=descending)
    found = asked.chosen(rows, lambda rows: rows, {"value": lambda row: row[0]}, [])
    assert found == sorted(rows, key=lambda row: row[0], reverse=descending)
    assert (sum(sizes), max(sizes)) == (1234, 500)


def test_in_order(bed: Bed) -> None:
    """By text or number, also by a number that is a text; rows without the value come last in both orders."""
    assert asked(bed, ["name"], orderBy="name") == ([["from"], ["to"]], 2)
    assert asked(bed, ["name"], orderBy="name", descending=True) == ([["to"], ["from"]], 2)
    assert asked(bed, ["name"], orderBy="identity", descending=True) == ([["from"], ["to"]], 2)
    processes = PREFIX + "worker"
    rows, total = asked(bed, ["name", "pid"], processes, orderBy="pid", descending=True)
    known = [row[1] for row in rows if row[1] is not None]
    assert known == sorted(known, reverse=True)
    assert len(rows) == total


def test_in_pages(bed: Bed) -> None:
    """`offset` and `count` count what was chosen."""
    assert asked(bed, ["name"], orderBy="name", count=1) == ([["from"]], 2)
    assert asked(bed, ["name"], orderBy="name", offset=1, count=1) == ([["to"]], 2)


def test_a_query_that_does_not_choose_is_answered_as_ever(bed: Bed) -> None:
    """Clients of qdrouterd see nothing new."""
    _, body = bed.ask("QUERY", {"attributeNames": ["name"]}, entityType=LINKS)
    assert sorted(body) == ["attributeNames", "results"]


@pytest.mark.parametrize(
    "choice",
    [
        {"where": "x"}, {"where": {1: 2}}, {"atLeast": {"name": "x"}}, {"search": 1}, {"orderBy": ["name"]},
        {"without": {"name": "x"}}, {"without": {"name": [1]}},
        {"without": {"name": ["x"] * 20, "peer": ["y"] * 13}},
    ],
)  # fmt: skip
def test_a_choice_that_makes_no_sense(bed: Bed, choice: dict[str, Any]) -> None:
    """Status 400."""
    status, _ = bed.ask("QUERY", {"attributeNames": ["name"]} | choice, entityType=LINKS)
    assert status == 400


def test_unknown_attributes(bed: Bed) -> None:
    """Status 404, although an unknown column is empty."""
    assert bed.ask("QUERY", {"attributeNames": ["name"], "orderBy": "no"}, entityType=LINKS)[0] == 404


def test_one_type_at_a_time(bed: Bed) -> None:
    """All types together have no common order."""
    assert bed.ask("QUERY", {"search": "x"})[0] == 400


def test_too_many_rows(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Choosing among very many rows would keep the agent from all others."""
    monkeypatch.setattr(entity_type, "MOST_ROWS", 1)
    assert bed.ask("QUERY", {"search": "x"}, entityType=LINKS)[0] == 400


def test_the_requester_learns_its_right(bed: Bed) -> None:
    """READ of the agent itself says what the connection may do."""
    _, body = bed.ask("READ")
    assert body["management"] == "all"
