"""The commands: what they say and how they end."""

import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from py4j.protocol import Py4JNetworkError
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession

from pipeline.cli import pipeline
from pipeline.errors import PipelineError
from pipeline.output.directory import RESULTS, Output, claimed
from pipeline.output.generations import Generation, begin, begun
from pipeline.session import check_master, session
from pipeline.stopping import ending
from pipeline.tables.measures import octets as octets_of
from tests.model import plainly
from tests.support.running import until


def invoke(*words: str) -> Any:
    return CliRunner().invoke(pipeline, list(words))


def test_a_log_is_generated_once(tmp_path: Path) -> None:
    """Same seed, same records; a directory that holds something is left alone."""
    for name in ("one", "two"):
        done = invoke("generate", str(tmp_path / name), "--records", "2000", "--days", "1")
        assert done.exit_code == 0, done.output
    names = [file.relative_to(tmp_path / "one") for file in (tmp_path / "one").rglob("*.parquet")]
    assert len(names) > 100
    for name in names:
        one, other = (pq.ParquetFile(tmp_path / which / name).read() for which in ("one", "two"))
        assert one.equals(other, check_metadata=True)
    again = invoke("generate", str(tmp_path / "one"))
    assert again.exit_code == 1
    assert again.output.count("\n") == 1
    assert "is not empty; give a new directory" in again.output
    assert "is not a day" in invoke("generate", str(tmp_path / "x"), "--start", "today").output


def test_hot_shares_are_those_of_the_log(tmp_path: Path) -> None:
    """One address, one receiver and one path have these shares of the messages, within their minutes."""
    shares = {"address": 0.33, "receiver": 0.56, "path": 0.11}
    options = [word for name, share in shares.items() for word in (f"--hot-{name}", str(share))]
    words = ["--records", "20000", "--days", "1", "--hot-minutes", "15", *options]
    done = invoke("generate", str(tmp_path / "log"), *words, "--no-faults")
    assert done.exit_code == 0, done.output
    records = plainly.records(tmp_path / "log")
    came = [row for row in records if row["path"] == row["router_id"]]  # the first record of each message
    for name, wanted in shares.items():
        hot = sum(row["address"].split("/")[:2] == ["hot", name] for row in came)
        assert hot / len(came) == pytest.approx(wanted, abs=0.02)
    assert {row["path"] for row in records if row["address"] == "hot/path"} == {"R1", "R1>R2", "R1>R2>R3"}
    times = [row["ts"] for row in records]
    assert max(times) - min(times) < timedelta(minutes=16)  # clocks are wrong by seconds


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        (("--hot-path", "1"), "all messages are hot, so no fault would be in the log: give --no-faults as well"),
        (("--hot-address", "0.33", "--hot-receiver", "0.56", "--hot-path", "0.12"), "more than all messages"),
        (("--hot-minutes", "15"), "none are hot: give --hot-address, --hot-receiver or --hot-path as well"),
    ],
)
def test_hot_shares_that_leave_too_little_are_refused(tmp_path: Path, shares: tuple[str, ...], said: str) -> None:
    """Nothing is written: _truth.json would list faults that are not in the log."""
    done = invoke("generate", str(tmp_path / "log"), *shares)
    assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
    assert said in done.output
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("command", "option"),
    [("generate", "--hot-address"), ("generate", "--hot-path"), ("run", "--worker-us"), ("stream", "--delay")],
)
@pytest.mark.parametrize("number", ["nan", "inf", "-1"])
def test_a_number_that_is_none_is_refused(command: str, option: str, number: str) -> None:
    """Not a traceback in the middle, nor a result of which nobody knows that it means nothing."""
    done = invoke(command, option, number)
    assert done.exit_code == 2, done.output
    assert re.search(rf"Invalid value for '{option}': {number}.* is not", done.output), done.output


def test_sums_beyond_64_bits_are_said(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the columns to look at, in place of Spark's advice to switch the check off."""
    sizes = spark.createDataFrame([(1 << 62, 1), (1 << 62, 1)], "size_bytes long, sample_weight int")
    monkeypatch.setattr("pipeline.commands.run", lambda **_: sizes.select(octets_of()).collect())
    done = invoke("run", "--input", "unused", "--output", "unused")
    assert (done.exit_code, done.output.count("\n")) == (78, 1), done.output
    assert done.output.startswith("Error: Spark failed: a sum is beyond 64 bits (9 exabytes, or 9e18 messages)")


@pytest.mark.parametrize("command", ["run", "stream"])
def test_a_wrong_directory_is_one_sentence_and_status_1(command: str, tmp_path: Path) -> None:
    """Before Spark is started, where that is possible."""
    words = [sys.executable, "-m", "pipeline", command, "--input", "missing", "--output", str(tmp_path / "out")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Error: missing is not a directory; give the directory of a flowLog" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("option", "name"), [("--report", "report.html"), ("--plan", "plan.rt")])
def test_a_report_of_somebody_else_is_refused_before_spark_starts(
    flows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, name: str
) -> None:
    """Not after all of the run; without the option nobody looks at it."""
    monkeypatch.setattr("pipeline.session.session", mock.Mock(side_effect=PipelineError("Spark starts")))
    with claimed(str(tmp_path), RESULTS, str(flows)):
        (tmp_path / name).write_text("precious")
    words = ("run", "--input", str(flows), "--output", str(tmp_path))
    done = invoke(*words, option)
    assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
    assert f"{tmp_path / name} is there already, and routerd did not make it: move it away" in done.output
    assert "Spark starts" in invoke(*words).output


@pytest.mark.parametrize("former", [False, True])
def test_a_log_without_any_record_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, former: bool
) -> None:
    """It may be another directory than was meant; results of eighteen empty tables would replace good ones."""
    monkeypatch.setattr("pipeline.session.session", None)
    log, out = tmp_path / "log", tmp_path / "out"
    log.mkdir()
    (log / "notes.txt").write_text("no log")
    if former:
        with claimed(str(out), RESULTS, str(log)) as output:
            begin(output).publish({"records": 3})
    before = sorted(out.rglob("*"))
    done = invoke("run", "--input", str(log), "--output", str(out))
    assert done.exit_code == 1
    assert f"Error: {log} has no record of a flow log (1 files left out), so nothing is computed" in done.output
    assert sorted(out.rglob("*")) == before
    assert out.exists() == former


@pytest.mark.parametrize("command", ["run", "stream"])
def test_an_output_of_somebody_else_is_refused_before_spark_starts(
    command: str, tmp_path: Path, flows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called like a table, hidden, or the folder of the log: one sentence, and everything is as it was."""
    monkeypatch.setattr("pipeline.session.session", None)
    log = shutil.copytree(flows, tmp_path / "data" / "flows", copy_function=os.link)
    for name in ("home/.ssh/id", "out/links/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("precious")
    (tmp_path / "link").symlink_to(log)
    before = sorted(tmp_path.rglob("*"))
    for output, said in (
        ("home", "holds what routerd did not make (.ssh)"),
        ("out", "holds what routerd did not make (links)"),
        ("data", "is above the log"),
        ("link/new", "is in the log"),
    ):
        done = invoke(command, "--input", str(log), "--output", str(tmp_path / output))
        assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
        assert f"{tmp_path / output} {said}" in done.output
    assert sorted(tmp_path.rglob("*")) == before
    for reading in ("report", "plan"):
        done = invoke(reading, "--results", str(tmp_path / "out"))
        assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
        assert "out holds no results: `routerd pipeline run` makes them there" in done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--since", "soon"), "--since soon is neither a day, YYYY-MM-DD, nor an hour, YYYY-MM-DDTHH, of UTC"),
        (("--since", "2026-01-06", "--until", "2026-01-05T23"), "--until 2026-01-05T23 is not after --since 2026-01-0"),
        (("--tables", "traffic, waves"), "there is no table waves; the tables are load, flows,"),
        (("--tables", "traffic", "--plan"), "--report and --plan need all tables: leave out --tables"),
        (("--tables", ""), "there is no table ''; the tables are load, flows,"),
    ],
)
def test_a_choice_of_nothing_is_refused_before_spark_starts(
    flows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    """Nothing is made, not even the output."""
    monkeypatch.setattr("pipeline.session.session", None)
    done = invoke("run", "--input", str(flows), "--output", str(tmp_path / "out"), *words)
    assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
    assert said in done.output
    assert not (tmp_path / "out").exists()


def test_a_stream_makes_the_tables_that_are_named(flows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With those they are made from; one that does not exist is refused before Spark starts."""
    made: list[list[str]] = []
    monkeypatch.setattr("pipeline.session.session", lambda *_: nullcontext(mock.Mock()))
    monkeypatch.setattr("pipeline.stream.run", lambda _, __, ___, recipes, *____: made.append(list(recipes)))
    words = ("stream", "--once", "--input", str(flows), "--output", str(tmp_path / "days"), "--tables")
    assert invoke(*words, "traffic, hops").exit_code == 0
    assert made == [["flows", "traffic", "links", "hops"]]
    refused = invoke(*words, "waves")
    assert (refused.exit_code, len(made)) == (1, 1)
    assert "there is no table waves; the tables are load, flows," in refused.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--master", "nonsense"), "--master nonsense is no master of Spark: give spark://HOST:PORT, yarn,"),
        (("--master", "local[two]"), "--master local[two] is no master of Spark"),
        (("--master", "local[0]"), "--master local[0] is no master of Spark"),
        (("--master", "k8s://x"), "--master k8s://x names no API server of Kubernetes: give k8s://https://HOST:PORT"),
        (("--master", "spark://there"), "there is not HOST:PORT; the port is typically 7077"),
        (("--master", "yarn"), "--master yarn needs the configuration of Hadoop: set HADOOP_CONF_DIR"),
        (("--memory", "100m"), "--memory 100m is too little for Spark: give 512m or more"),
        (("--memory", "2 GB"), "--memory 2 GB is no size: give a number with m or g, such as 2g"),
        (("--memory", "900t"), "--memory 900t is more than this machine has ("),
    ],
)
def test_what_spark_cannot_start_with_is_one_sentence(
    flows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    """Instead of Java's traces, some of them a minute later."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pipeline.session.check_java", lambda: None)
    done = invoke("run", "--input", str(flows), "--output", str(tmp_path / "out"), *words)
    assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
    assert said in done.output


@pytest.mark.parametrize("former", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_stopped_says_so_and_leaves_nothing(
    flows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, former: bool, number: signal.Signals
) -> None:
    """Neither what it had made nor a new directory; what was there before stays."""
    out = tmp_path / "results" / "of" / "out"
    if former:
        with claimed(str(out), RESULTS, str(flows)) as output:
            begin(output)
    before = sorted(out.rglob("*"))

    def stopped(_: object, found: object, output: Output, *more: object) -> None:
        with begun(output):
            os.kill(os.getpid(), number)

    monkeypatch.setattr("pipeline.session.session", lambda *_: nullcontext(mock.Mock()))
    monkeypatch.setattr("pipeline.commands.places_for", lambda *_: {})
    monkeypatch.setattr("pipeline.batch.run", stopped)
    done = invoke("run", "--input", str(flows), "--output", str(out))
    assert done.exit_code == 128 + number
    assert done.output == f"{out}: stopped; what this run has made is removed, and former results stay\n"
    assert [path.exists() for path in (out, tmp_path / "results")] == [former, former]
    assert {path.name for path in out.rglob("*")} == {path.name for path in before if path.name == RESULTS.marker}


def test_java_ends_before_what_it_wrote_is_removed(
    flows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A signal may come within a call to Java, so its handler makes none; and Java writes until it ends. There is no
    traceback."""
    ended = threading.Event()
    folders: list[Path] = []

    def write() -> None:
        (folder,) = folders
        while not ended.wait(0.0001):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "_SUCCESS").touch()

    def interrupted(_: object, __: object, made: Generation, *more: object) -> None:
        folders.append(Path(made.root, "traffic"))
        writer.start()
        until((folders[0] / "_SUCCESS").exists, "what Java writes")
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            logging.exception("KeyboardInterrupt while sending command.")  # as py4j does
            raise

    writer = threading.Thread(target=write)
    spark = mock.Mock()
    spark.sparkContext.master = "local[*]"
    spark.sparkContext.cancelAllJobs.side_effect = RuntimeError("reentrant call inside BufferedReader")
    spark.sparkContext._gateway.proc.kill.side_effect = ended.set
    spark.sparkContext._gateway.proc.wait.side_effect = writer.join
    monkeypatch.setattr("pipeline.session.session", lambda *_: nullcontext(spark))
    monkeypatch.setattr("pipeline.commands.places_for", lambda *_: {})
    monkeypatch.setattr("pipeline.batch.Hourly.of_log", interrupted)
    try:
        done = invoke("run", "--input", str(flows), "--output", str(tmp_path / "out"))
        assert ended.is_set()
    finally:
        ended.set()
    assert done.exit_code == 128 + signal.SIGTERM
    assert not (tmp_path / "out").exists()
    spark.sparkContext.cancelAllJobs.assert_not_called()
    assert caplog.text == ""


def test_a_spark_elsewhere_is_told_to_stop_by_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupted one may have a call to Java without its answer; one that fails or hangs keeps nobody."""
    monkeypatch.setattr("pipeline.stopping.PATIENCE_S", 0.1)
    threads: list[threading.Thread] = []
    spark, hangs = mock.Mock(), threading.Event()
    spark.sparkContext._gateway.proc = None  # within spark-submit
    spark.sparkContext.cancelAllJobs.side_effect = lambda: threads.append(threading.current_thread())
    for ends in (None, ConnectionRefusedError, hangs.wait):
        spark.stop.side_effect = ends
        with pytest.raises(KeyboardInterrupt), ending(spark):
            raise KeyboardInterrupt
    hangs.set()
    assert spark.stop.call_count == 3
    assert threading.main_thread() not in threads


def test_a_run_that_is_stopped_after_its_results_are_published_says_so(
    flows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def registered(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("pipeline.session.session", lambda *_: nullcontext(mock.Mock()))
    monkeypatch.setattr("pipeline.commands.places_for", lambda *_: {})
    monkeypatch.setattr("pipeline.batch.run", lambda *_: mock.Mock())
    monkeypatch.setattr("pipeline.output.catalogue.register", registered)
    done = invoke("run", "--input", str(flows), "--output", str(out), "--register", "routerd")
    assert done.exit_code == 128 + signal.SIGTERM
    assert done.output == f"{out}: stopped; its results are published; the rest was not done\n"


def test_a_master_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark would try for more than a minute; one of several is enough."""
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as gone:
        ports = [one.getsockname()[1] for one in (gone, there)]
        gone.close()
        check_master(f"spark://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}")
        with pytest.raises(PipelineError, match="does not answer \\(Connection refused\\): start it"):
            check_master(f"spark://127.0.0.1:{ports[0]}")
        check_master(f"k8s://https://127.0.0.1:{ports[1]}")
        with pytest.raises(PipelineError, match="does not answer \\(Connection refused\\): give the API server"):
            check_master(f"k8s://127.0.0.1:{ports[0]}")
        with pytest.raises(PipelineError, match="does not answer"):
            check_master(f"k8s://https://127.0.0.1:{ports[0]}/k8s/clusters/c-1")
        monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
        check_master(f"k8s://https://127.0.0.1:{ports[0]}/k8s/clusters/c-1")  # Spark asks the proxy
        monkeypatch.delenv("https_proxy")
    for master in ("local", "local[*]", "local[2]", "local[*, 4]", "local-cluster[2,1,1024]"):
        check_master(master)


def test_java_without_memory_is_said_with_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark says of it has some hundred lines."""
    error = SparkRuntimeException("Job aborted.\nCaused by: java.lang.OutOfMemoryError: Java heap space\n")
    monkeypatch.setattr("pipeline.commands.run", mock.Mock(side_effect=error))
    done = invoke("run", "--input", "unused", "--output", "unused")
    assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output
    assert "Spark failed: Java has too little memory for this log: give it more with --memory" in done.output


@pytest.mark.parametrize("died", [True, False])
def test_a_java_that_died_is_said(monkeypatch: pytest.MonkeyPatch, died: bool) -> None:
    """Where it lives, an error stays what it is."""
    spark = mock.Mock()
    if died:
        spark.catalog.currentDatabase.side_effect = spark.stop.side_effect = ConnectionRefusedError
    monkeypatch.setattr("pipeline.session._build", lambda *_: (mock.Mock(getOrCreate=lambda: spark), None))
    wanted = (PipelineError, "Java died: ") if died else (Py4JNetworkError, "empty")
    with pytest.raises(wanted[0], match=wanted[1]), session():
        raise Py4JNetworkError("Answer from Java side is empty")
    spark.stop.assert_called_once()


def test_no_java_is_said_with_what_to_install(flows: Path, tmp_path: Path) -> None:
    """So is one that is too old."""
    words = [sys.executable, "-m", "pipeline", "run", "--input", str(flows), "--output", str(tmp_path / "out")]
    bare = {**os.environ, "PATH": str(tmp_path)}
    bare.pop("JAVA_HOME", None)
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=bare)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: Spark needs Java 17 or newer, and there is no java in the PATH: "
        "install one (on Debian: apt install default-jre-headless)\n"
    )
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**bare, "PATH": f"{tmp_path}:/bin"})
    assert "java is Java 11: install one" in done.stderr


def test_pyspark_missing_is_said_with_what_to_install(flows: Path, tmp_path: Path) -> None:
    """The command line itself needs none of it."""
    code = "import sys; sys.modules['pyspark'] = None\nfrom routerd.__main__ import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", code, "pipeline", "run", "--input", str(flows), "--output", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 78
    assert re.search(r"Error: pyspark\S* is missing: docs/pipeline.md says how to install", done.stderr)
