"""A longer route table makes no record of it cost more: the core parses what Route Managers send."""

from pathlib import Path

from tests.support.native.program import compiled, said

FEW, MANY = 1_000, 200_000
TIMES = 3  # the longest search in a hash table grows a little


def test_no_name_of_a_table_costs_as_much_as_all_before_it(tmp_path: Path) -> None:
    """The hash table of texts grows in portions; each text keeps its number."""
    source = Path(__file__).with_name("name_growth.c")
    program = compiled(source, tmp_path, "-fsanitize-coverage=trace-pc", "-fsanitize=address,undefined")
    few, many = (int(said(program, str(n))) for n in (FEW, MANY))
    assert many < TIMES * few
