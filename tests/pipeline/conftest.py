"""One generated log, one Spark session and one run of all batch jobs, shared by all tests of the pipeline."""

import json
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline import batch
from pipeline.flow_log.holding import held, places_for
from pipeline.flow_log.records import read_log
from pipeline.flow_log.survey import survey
from pipeline.generate.scenario import Scenario
from pipeline.generate.write import generate
from pipeline.output.directory import RESULTS, claimed
from pipeline.output.results import Results
from pipeline.session import session
from pipeline.tables.capacity import Costs
from tests.support.pipeline.logs import Written, written_at_noon
from tests.support.pipeline.logs import file as write_file
from tests.support.pipeline.small_spark import PLAIN, as_for_users
from tests.support.pipeline.tables import MERGED

SCENARIO = Scenario(records=120_000, workers=1, clients=12, special=0.09)


@pytest.fixture(scope="session")
def flows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two days of four routers and an edge router, with every kind of fault; records of a file are out of
    order."""
    directory = tmp_path_factory.mktemp("flows") / "log"
    generate(SCENARIO, directory)
    random = np.random.default_rng(1)
    for file in directory.rglob("*.parquet"):
        table = pq.ParquetFile(file).read()
        pq.write_table(table.take(random.permutation(len(table))), file)
    return directory


@pytest.fixture(scope="session")
def truth(flows: Path) -> dict[str, Any]:
    """Its true answers."""
    return dict(json.loads((flows / "_truth.json").read_text()))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark in as little memory as it starts in."""
    logging.getLogger("py4j").setLevel(logging.ERROR)
    with session("local[2]", PLAIN) as started:
        yield started


@pytest.fixture(scope="session")
def log(spark: SparkSession, flows: Path) -> DataFrame:
    """The records of the log."""
    return read_log(spark, survey(str(flows)))


@pytest.fixture(scope="session")
def results(spark: SparkSession, flows: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What all batch jobs make of it, though half of the files go as soon as the first table is there."""
    log = str(shutil.copytree(flows, tmp_path_factory.mktemp("going") / "log", copy_function=os.link))
    directory = str(tmp_path_factory.mktemp("results"))

    def tell(_: str) -> None:
        for path in going:
            path.unlink(missing_ok=True)

    with as_for_users(spark), held(log) as (found, kept), claimed(directory, RESULTS, log) as output:
        going = [Path(file.path) for file in found.clean[::2]]
        return batch.run(spark, found, output, Costs(), tell, places_for(spark, kept))


@pytest.fixture(scope="session")
def writers(tmp_path_factory: pytest.TempPathFactory) -> list[Written]:
    """The records of five routers within three hours, with clocks that are wrong by seconds."""
    directory = tmp_path_factory.mktemp("split") / "log"
    return written_at_noon(directory, Scenario(records=24_000, days=1, workers=1, clients=3, special=0.1))


@pytest.fixture(scope="session")
def whole_log(writers: list[Written], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of these records, with a file for each router."""
    log = tmp_path_factory.mktemp("whole") / "log"
    for one in writers:
        write_file(one, one.records, log / "raw" / f"{one.router}.parquet")
    return log


@pytest.fixture(scope="session")
def whole(whole_log: Path, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Results:
    """The tables that are made from rollups, of one run over all of it."""
    with claimed(str(tmp_path_factory.mktemp("whole") / "out"), RESULTS, str(whole_log)) as place:
        choice = batch.Choice(tables=MERGED)
        return batch.run(spark, survey(str(whole_log)), place, Costs(), lambda _: None, None, choice)
