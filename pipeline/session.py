"""The Spark session, with the settings on which every job relies."""

import logging
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.request import getproxies, proxy_bypass

import psutil
from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.scratch import scratch
from pipeline.sharing import Sharing, archive
from pipeline.stopping import ending

OLDEST_JAVA: Final = 17
LOCAL: Final = "local[*]"
MEMORY: Final = "spark.driver.memory"
LEAST_MB: Final = 512  # Spark refuses to start with less
UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_PARTS: Final = r"(?:0*[1-9]\d*|\*)"
_PLACE: Final = r"(?:\[[0-9a-fA-F:]+\]|[^/:\s]+)"
KUBERNETES: Final = rf"k8s://(?:(https?)://)?({_PLACE})(?::(\d{{1,5}}))?(?:/\S*)?"
MASTER: Final = rf"local(?:\[{_PARTS}(?:, *\d+)?\])?|local-cluster\[.*\]|spark://(.+)|yarn|k8s://.+"
PORTS: Final = {"https": 443, "http": 80}
PATIENCE_S: Final = 5.0  # with a Spark master that does not answer

# With others, results would be wrong: rollups are found by their hours of UTC, and a sum beyond 64 bits is an error.
FIXED: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96 otherwise
}
# Jobs depend on these, also on a cluster.
RULES: Final = {
    **FIXED,
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.parquet.compression.codec.zstd.level": "1",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # What a grouping collects is small (sets of names, an estimate): to sort all records from 128 groups on costs more
    # than the memory.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
    # The pipeline names each file; a Spark job that looks for thousands of them takes longer than the driver.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
}
# On one machine nothing listens for others, and there is no web page.
ALONE: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "32",  # adaptive execution joins small ones
    "spark.sql.files.maxPartitionBytes": "64m",
    "spark.sql.files.openCostInBytes": "256k",  # a task for each few files costs more than to open them
    # Plans are told to the page that is not there, each anew after each of its stages.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "1000",
}
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
# Each job has its own code, which runs for seconds: the second compiler saves less time than it takes, except for what
# runs millions of times. Nobody waits for a single message, so a garbage collection may stop everything.
JAVA: Final = (
    "-XX:+UseParallelGC -XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=20000 "
    "-XX:Tier4CompileThreshold=200000 -XX:Tier4BackEdgeThreshold=1000000"
)
# With few records nothing runs so often.
BRIEF: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
FEW: Final = 300_000  # records
# Two tasks have done with these before Spark has planned anew after each stage.
OF_FEW: Final = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}


# Spark makes code of each query, and Java compiles it: that takes longer than few rows take without.
UNCOMPILED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def check_java() -> str:
    """Return the path of Java and what it says of its version.

    Raises ``PipelineError``, which says what to install, if there is none on which Spark runs.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    advice = "install one (on Debian: apt install default-jre-headless)"
    if java is None:
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is no java in the PATH"
        raise PipelineError(f"Spark needs Java {OLDEST_JAVA} or newer, and {where}: {advice}")
    asked = [java, "-version"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stderr  # noqa: S603  theirs
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found[1]) < OLDEST_JAVA:
        what = f"Java {found[1]}" if found else "no Java that says its version"
        raise PipelineError(f"Spark needs Java {OLDEST_JAVA} or newer, and {java} is {what}: {advice}")
    return f"{java}\n{said}"


def check_master(master: str) -> None:
    """Raise ``PipelineError`` if Spark has no such master, or none of its hosts answers."""
    form = re.fullmatch(MASTER, master)
    if form is None:
        raise PipelineError(
            f"--master {master} is no master of Spark: give spark://HOST:PORT, yarn, k8s://https://HOST:PORT, or "
            "local[N] for N CPUs of this machine, 1 or more"
        )
    if master == "yarn" and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys():
        raise PipelineError("--master yarn needs the configuration of Hadoop: set HADOOP_CONF_DIR to its directory")
    if master.startswith("k8s://"):
        _check_kubernetes(master)
    if not form[1]:
        return
    why = ""
    for place in form[1].split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise PipelineError(f"--master {master}: {place} is not HOST:PORT; the port is typically 7077")
        try:
            socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S).close()
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return
    raise PipelineError(f"--master {master} does not answer ({why}): start it, or give the address that its log names")


def _check_kubernetes(master: str) -> None:
    """Raise ``PipelineError`` if this names no API server of Kubernetes, or that does not answer.

    One behind a proxy, which the environment names, is not asked.
    """
    form = re.fullmatch(KUBERNETES, master)
    if form is None or not (form[1] or form[3]) or int(form[3] or 1) > 65535:
        raise PipelineError(f"--master {master} names no API server of Kubernetes: give k8s://https://HOST:PORT")
    if (form[1] or "https") in getproxies() and not proxy_bypass(form[2]):
        return
    port = int(form[3] or PORTS[form[1]])
    try:
        socket.create_connection((form[2].strip("[]"), port), PATIENCE_S).close()
    except OSError as error:
        raise PipelineError(
            f"--master {master} does not answer ({error.strerror or error}): give the API server that `kubectl "
            "cluster-info` names"
        ) from error


def check_memory(memory: str) -> None:
    """Raise ``PipelineError`` if Spark cannot start with this memory, such as 2g."""
    form = re.fullmatch(r"(\d+)([kmgt])b?", memory.lower())
    if form is None:
        raise PipelineError(f"--memory {memory} is no size: give a number with m or g, such as 2g")
    size, there = int(form[1]) * UNITS[form[2]], psutil.virtual_memory().total + psutil.swap_memory().total
    if size < LEAST_MB * UNITS["m"]:
        raise PipelineError(f"--memory {memory} is too little for Spark: give {LEAST_MB}m or more")
    if size > there:
        raise PipelineError(f"--memory {memory} is more than this machine has ({there // UNITS['m']}m): give less")


def check_settings(options: dict[str, str]) -> None:
    """Raise ``PipelineError`` for a setting with which results would be wrong."""
    for name, value in FIXED.items():
        if (given := options.get(name, value)).lower() != value.lower():
            raise PipelineError(f"--conf {name}={given} would make wrong results, which need {value}: leave it out")


@contextmanager
def session(
    master: str | None = None, options: dict[str, str] | None = None, records: int | None = None
) -> Iterator[SparkSession]:
    """Start a Spark session, and stop it at the end.

    Within spark-submit it is the submitted one, otherwise that of ``master``, by default this machine. Spark's
    temporary files are in a directory that is removed at the end. A session that reads so many ``records`` and ends has
    a Java for that, and leaves an archive of classes to later ones (`pipeline.sharing`). Raises ``PipelineError``
    without Java, such a master or enough memory, with settings that make results wrong, and if Java dies.
    """
    logging.getLogger("SQLQueryContextLogger").disabled = True  # prints errors as JSON besides raising them
    spark, sharing, well = None, None, False
    with scratch() as aside:
        try:
            builder, sharing = _build(master, options or {}, aside, records)
            spark = builder.getOrCreate()
            with ending(spark):
                yield spark
            well = True
        except PySparkRuntimeError as error:
            raise PipelineError(f"Spark does not start: {error}") from error
        except (Py4JError, ConnectionError) as error:
            if spark is None or _lives(spark):
                raise
            raise PipelineError(
                "Java died: perhaps the kernel killed it because the machine had no memory left (`dmesg` tells), so "
                "give it less with --memory"
            ) from error
        finally:
            if spark is not None:
                with suppress(Py4JError, ConnectionError):  # it died
                    spark.stop()
                    if sharing is not None:
                        sharing.settle(spark.sparkContext, well)


@contextmanager
def uncompiled(spark: SparkSession, few: bool) -> Iterator[None]:
    """Have Spark make no code of the queries that are started meanwhile, if their rows are ``few``."""
    before = {name: str(spark.conf.get(name)) for name in UNCOMPILED} if few else {}
    for name in before:
        spark.conf.set(name, UNCOMPILED[name])
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _lives(spark: SparkSession) -> bool:
    """Return whether Java still answers."""
    try:
        spark.catalog.currentDatabase()
    except (Py4JError, ConnectionError):
        return False
    return True


def _build(
    master: str | None, options: dict[str, str], aside: Path, records: int | None
) -> tuple[SparkSession.Builder, Sharing | None]:
    check_settings(options)
    settings = dict(RULES)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    sharing, brief = None, records is not None and records <= FEW
    if not submitted:
        java = check_java()
        settings["spark.master"] = master or LOCAL
        settings["spark.ui.showConsoleProgress"] = "false"
        logging_file = Path(__file__).with_name("log4j2.properties")
        settings[JAVA_OPTIONS] = " ".join(
            (f"-Djava.io.tmpdir={aside}", f"-Dlog4j2.configurationFile=file:{logging_file}")
        )
        if JAVA_OPTIONS not in options:  # two choices of a collector contradict each other
            sharing = Sharing(archive(java, Path(_find_spark_home())), records is not None)
            options = {**options, JAVA_OPTIONS: f"{BRIEF if brief else JAVA} {sharing.options}"}
        if settings["spark.master"].startswith("local"):
            os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # not just any python3
            settings |= {**ALONE, **(OF_FEW if brief else {})}
            settings["spark.local.dir"] = str(aside)
            settings["spark.sql.warehouse.dir"] = str(aside / "warehouse")
    extra = options.get(JAVA_OPTIONS, "")
    settings |= {name: value for name, value in options.items() if name != JAVA_OPTIONS}
    if extra:
        settings[JAVA_OPTIONS] = f"{settings.get(JAVA_OPTIONS, '')} {extra}".strip()
    builder = SparkSession.builder.appName("routerd pipeline")
    if not submitted:
        check_memory(settings.get(MEMORY, f"{LEAST_MB}m"))
        check_master(settings["spark.master"])
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder, sharing
