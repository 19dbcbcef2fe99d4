"""The tables of results by name in Spark's catalogue: `SELECT … FROM routerd.traffic`.

An entry says where the files are, and holds none: to remove one removes no file. We replace only entries that carry our
mark.
"""

import re
from typing import Final

from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.output.columns import SPARK, TABLES, VERSION
from pipeline.output.generations import Generation

NAME: Final = re.compile(r"[A-Za-z_]\w{0,127}")
MARK: Final = "routerd.results"  # property of a table


def check(database: str) -> None:
    """Raise ``PipelineError`` unless this can be the name of a database."""
    if not NAME.fullmatch(database):
        raise PipelineError(f"--register {database!r} is no name of a database: give letters, digits and underscores")


def register(spark: SparkSession, made: Generation, tables: list[str], database: str) -> None:
    """Register tables of a published run in a database, which is made if necessary.

    Raises ``PipelineError`` if the database has such a table that routerd did not register; nothing is changed then.
    """
    spark.sql(f"CREATE DATABASE IF NOT EXISTS `{database}`")
    there = {row["tableName"] for row in spark.sql(f"SHOW TABLES IN `{database}`").collect()}
    for name in there.intersection(tables):
        if MARK not in {row["key"] for row in spark.sql(f"SHOW TBLPROPERTIES `{database}`.`{name}`").collect()}:
            raise PipelineError(
                f"the table {database}.{name} is there already, and routerd did not register it: "
                "give another --register"
            )
    for name in tables:
        columns = ", ".join(
            f"`{column.name}` {SPARK[column.type]} COMMENT {_quoted(column.meaning)}" for column in TABLES[name].columns
        )
        spark.sql(f"DROP TABLE IF EXISTS `{database}`.`{name}`")
        spark.sql(
            f"CREATE TABLE `{database}`.`{name}` ({columns}) USING parquet "
            f"LOCATION {_quoted(made.stable(name))} COMMENT {_quoted('One row for each ' + TABLES[name].row)} "
            f"TBLPROPERTIES ('{MARK}' = '{VERSION}')"
        )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
