"""The declared columns of the tables of results, and how a table differs from them."""

import pytest

from pipeline.output.columns import SPARK, TABLES, differs


@pytest.mark.parametrize("name", TABLES)
def test_a_declaration_is_whole(name: str) -> None:
    """Every column has a known type and a meaning, and none is there twice."""
    table = TABLES[name]
    assert len(table.types) == len(table.columns) > 0
    assert {column.type for column in table.columns} <= SPARK.keys()
    assert all(column.meaning and column.meaning == column.meaning.strip() for column in table.columns)


def test_a_table_that_is_not_as_declared_is_told() -> None:
    """The first column that is missing, unknown or of another type, or the order."""
    wanted = TABLES["endpoints"].types
    assert differs("endpoints", wanted) == ""
    less = {name: kind for name, kind in wanted.items() if name != "sub_id"}
    assert differs("endpoints", less) == "sub_id is missing instead of int"
    assert differs("endpoints", {**wanted, "messages": "int"}) == "messages is int instead of bigint"
    assert differs("endpoints", {**wanted, "more": "int"}) == "more is int, which is not declared"
    assert differs("endpoints", dict(reversed(wanted.items()))) == "its columns are in another order"
