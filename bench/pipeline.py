"""How fast Spark makes the traffic matrix and all tables, compared with a plain scan of the same files and with DuckDB.

    python -m bench.pipeline --records 5e6 --records 2e7

Each measurement has a process of its own. DuckDB is measured if it is installed.
"""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click
import psutil
from rich.console import Console
from rich.table import Table

JOBS: Final = {
    "scan": "Spark, plain scan: one sum over every record",
    "traffic": "Spark, traffic matrix",
    "again": "Spark, traffic matrix, second time in a session",
    "run": "Spark, every table of `routerd pipeline run`",
    "next": "Spark, every table, after one more hour",
    "duckdb-traffic": "DuckDB, traffic matrix",
    "duckdb": "DuckDB, every table",
}
BEFORE: Final = {"before": "Spark, every table, without that hour"}  # a part of the job `next`
BESIDE: Final = {  # what DuckDB does of the same
    "traffic": "duckdb-traffic", "run": "duckdb", "next": "duckdb", "before": "duckdb",
}  # fmt: skip


@click.command()
@click.option("--records", type=float, multiple=True, default=(5e6,), show_default=True, help="Records of a log.")
@click.option("--job", "jobs", multiple=True, type=click.Choice(list(JOBS)), help="Only this job; may be repeated.")
@click.option("--hot", is_flag=True, help="All messages have one address and path, within a quarter of an hour.")
@click.option("--memory", default="3g", show_default=True, help="Java's memory.")
@click.option("--logs", type=click.Path(path_type=Path), help="Directory that keeps generated logs for the next time.")
@click.option("--steps", is_flag=True, help="Show the CPU seconds of each step of a run, too.")
@click.option("--child", hidden=True)
def main(
    records: tuple[float, ...], jobs: tuple[str, ...], hot: bool, memory: str, logs: Path | None, steps: bool,
    child: str | None,
) -> None:  # fmt: skip
    """Generate logs of these sizes and measure the jobs on them."""
    if child is not None:
        job, log, output = child.split(" ")
        print(json.dumps(_measured(job, log, output, memory)))
        return
    columns = ("records", "job", "s", "of it start", "first table", "CPU s", "of DuckDB's", "peak PSS MB", "rows out")
    shown = Table(*columns)
    for size in records:
        with tempfile.TemporaryDirectory(prefix="routerd-bench-") as folder:
            directory = _generated(int(size), hot, logs or Path(folder))
            wanted = [job for job in jobs or JOBS if not job.startswith("duckdb") or find_spec("duckdb")]
            found: dict[str, dict[str, Any]] = {}
            for job in wanted:
                found |= _run(job, directory, folder, memory)
            for job, said in found.items():
                beside = found.get(BESIDE.get(job, ""))
                shown.add_row(
                    f"{int(size):,}", (JOBS | BEFORE)[job],
                    *(f"{said[name]:.1f}" for name in ("seconds", "start", "first", "cpu")),
                    f"{said['cpu'] / beside['cpu']:.2f}" if beside else "",
                    f"{said['peak'] / 1e6:.0f}", f"{said['rows']:,}",
                )  # fmt: skip
                for step, cpu in said.get("steps", ()) if steps else ():
                    click.echo(f"{int(size):,} {job}: {cpu:6.1f} CPU s, {step}")
    Console(width=140).print(shown)


def _generated(records: int, hot: bool, logs: Path) -> Path:
    """Return the directory of a log of that size, which is made unless it exists."""
    from pipeline.generate.scenario import Scenario  # noqa: PLC0415  the rest runs without numpy
    from pipeline.generate.write import TRUTH, generate  # noqa: PLC0415  the same

    directory = logs / f"{records}{'-hot' if hot else ''}"
    if (directory / TRUTH).exists():  # it is written last
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    scenario = Scenario(records=records, days=1)
    if hot:
        scenario = replace(scenario, types=0, faults=(), hot_path=0.98, hot_minutes=15)
    truth = generate(scenario, directory)
    size = sum(file.stat().st_size for file in directory.rglob("*.parquet"))
    took = time.perf_counter() - began
    click.echo(f"{truth.records} records, {truth.files} files, {size / 1e6:.0f} MB, generated in {took:.0f} s")
    return directory


def _run(job: str, log: Path, folder: str, memory: str) -> dict[str, dict[str, Any]]:
    """Run one job with an output of its own, and before it that on which it depends; return what each says."""
    with tempfile.TemporaryDirectory(dir=folder) as output:
        return {one: _child(one, log, output, memory) for one in (("before", job) if job == "next" else (job,))}


def _child(job: str, log: Path, output: str, memory: str) -> dict[str, Any]:
    """Run one job in a process, and watch the memory of it and its children."""
    command = [sys.executable, "-m", "bench.pipeline", "--memory", memory, "--child", f"{job} {log} {output}"]
    with subprocess.Popen(  # noqa: S603  ourselves
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        peak = 0
        while running.poll() is None:
            peak = max(peak, _memory(running.pid))
            time.sleep(0.25)
        said: dict[str, Any] = json.loads((running.stdout.read() if running.stdout else "").splitlines()[-1])
    return said | {"peak": peak}


def _memory(pid: int) -> int:
    try:
        process = psutil.Process(pid)
        return sum(one.memory_full_info().pss for one in (process, *process.children(recursive=True)))
    except psutil.Error:
        return 0


def _measured(job: str, log: str, output: str, memory: str) -> dict[str, Any]:
    """Run the job in this process; return seconds, those before the first record and table, CPU seconds, and rows.

    Of a run also the CPU seconds of each step.
    """
    began = time.perf_counter()
    if job.startswith("duckdb"):
        return _duckdb(job, log, output, memory, began)
    return _spark(job, log, output, memory, began)


def _spark(job: str, log: str, output: str, memory: str, began: float) -> dict[str, Any]:
    from pyspark.sql import functions as f  # noqa: PLC0415  only where Spark is measured

    from pipeline import batch, session  # noqa: PLC0415  the same
    from pipeline.flow_log.hours import HOUR_US, Period  # noqa: PLC0415  the same
    from pipeline.flow_log.records import read_log  # noqa: PLC0415  the same
    from pipeline.flow_log.survey import survey  # noqa: PLC0415  the same
    from pipeline.output.directory import RESULTS, claimed  # noqa: PLC0415  the same
    from pipeline.output.generations import begin, last_said  # noqa: PLC0415  the same
    from pipeline.output.results import Results  # noqa: PLC0415  the same
    from pipeline.tables.capacity import Costs  # noqa: PLC0415  the same
    from pipeline.tables.traffic import traffic  # noqa: PLC0415  the same

    found, options = survey(log), {"spark.driver.memory": memory}
    with (
        claimed(output, RESULTS, log) as place,
        session.session(None, options, found.rows - last_said(place, "records")) as spark,
    ):
        spark.range(1).count()
        ready = time.perf_counter()
        results = Results(spark, begin(place))
        records = read_log(spark, found)
        rows, first, spent = 1, 0.0, _cpu()
        steps = [("start", spent)]

        def tell(step: str) -> None:
            nonlocal first, spent
            if not first and step.endswith(" rows"):
                first = time.perf_counter() - began
            before, spent = spent, _cpu()
            steps.append((step, spent - before))

        if job == "scan":
            records.agg(f.sum("size_bytes")).collect()
        elif job in ("run", "next"):
            results = batch.run(spark, found, place, Costs(), tell)
        elif job == "before":
            newest = max(file.times[1] for file in found.clean if file.times) // HOUR_US
            without = batch.Choice(Period(None, newest - 1))  # the newest hour has little more than wrong clocks
            results = batch.run(spark, found, place, Costs(), tell, choice=without)
        else:
            results.write("traffic", traffic(records))
        if job == "again":
            results = Results(spark, begin(place))
            began = ready = time.perf_counter()
            results.write("traffic", traffic(records))
        ended = time.perf_counter()
        if job in ("traffic", "again", "run", "next", "before"):
            rows = results.read("traffic").count()
        return {
            "seconds": ended - began, "start": ready - began, "first": first, "cpu": _cpu(), "rows": rows,
            "steps": steps,
        }  # fmt: skip


def _duckdb(job: str, log: str, output: str, memory: str, began: float) -> dict[str, float]:
    import duckdb  # noqa: PLC0415  optional

    from bench.pipeline_duckdb import make, tables  # noqa: PLC0415  it needs pyspark, as Spark's jobs do

    database = duckdb.connect(f"{output}/scratch.db", config={"memory_limit": f"{memory}b"})
    ready = time.perf_counter()
    make(database, log, output, ["traffic"] if job == "duckdb-traffic" else tables())
    ended = time.perf_counter()
    rows = database.execute("select count(*) from traffic").fetchall()[0][0]
    return {"seconds": ended - began, "start": ready - began, "first": 0.0, "cpu": _cpu(), "rows": rows}


def _cpu() -> float:
    """Return the CPU seconds of this process and its children."""
    own = psutil.Process()
    return float(sum(sum(one.cpu_times()[:2]) for one in (own, *own.children(recursive=True))))


if __name__ == "__main__":
    main()
