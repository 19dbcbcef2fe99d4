"""Each table of results, row by row, against SQL on another engine that follows the documentation alone."""

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from bench.pipeline_duckdb import LOG, tables
from pipeline.output.columns import TABLES
from pipeline.output.results import Results
from tests.support.pipeline.tables import plain

# One of several addresses, and what is said in words.
ANY = {"taken": {"address"}, "ways": {"address"}, "findings": {"address", "evidence"}, "advice": {"pinning"}}
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def sql(flows: Path) -> Any:
    """A database with every table."""
    database = duckdb.connect()
    database.execute("set timezone = 'UTC'")
    database.execute(LOG.format(log=flows))
    for name, statement in tables().items():
        database.execute(f"create table {name} as {statement}")
    return database


def rows(table: Any) -> Counter[Row]:
    """The rows, whatever their order."""
    return Counter(tuple(map(plain, row.values())) for row in table.to_pylist())


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_sql(results: Results, sql: Any, name: str) -> None:
    """Of a log with skew, faults and sampled messages."""
    names = [column.name for column in TABLES[name].columns if column.name not in ANY.get(name, ())]
    chosen = ", ".join(f'"{one}"' for one in names)
    wanted = rows(sql.sql(f"select {chosen} from {name}").to_arrow_table())  # noqa: S608  our own names
    given = pq.read_table(results.generation.files(name), columns=names).select(names)
    assert rows(given) == wanted
    assert wanted
