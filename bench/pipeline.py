"""How fast Spark makes the traffic matrix, compared with a plain scan of the same files and with DuckDB.

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
    "duckdb": "DuckDB, traffic matrix (quantile_disc, unweighted)",
}

# The same sums; percentiles are of records, not weighted: DuckDB has none that are.
MATRIX: Final = """
copy (
  select date_trunc('minute', ts) as minute, coalesce(split_part(path, '>', 1), router_id) as origin,
    router_id, egress_kind, address, mtype, count(*), sum(n_deliveries * sample_weight),
    sum(size_bytes * sample_weight),
    {outcomes},
    quantile_disc(latency_ns, [0.5, 0.9, 0.99, 0.999]), max(latency_ns)
  from read_parquet('{log}/raw/*/*/*.parquet') group by all
) to '{output}/matrix.parquet' (format parquet, compression zstd)
"""


@click.command()
@click.option("--records", type=float, multiple=True, default=(5e6,), show_default=True, help="Records of a log.")
@click.option("--job", "jobs", multiple=True, type=click.Choice(list(JOBS)), help="Only this job; may be repeated.")
@click.option("--hot", is_flag=True, help="All messages have one address and path, within a quarter of an hour.")
@click.option("--memory", default="3g", show_default=True, help="Java's memory.")
@click.option("--logs", type=click.Path(path_type=Path), help="Directory that keeps generated logs for the next time.")
@click.option("--child", hidden=True)
def main(
    records: tuple[float, ...], jobs: tuple[str, ...], hot: bool, memory: str, logs: Path | None, child: str | None
) -> None:
    """Generate logs of these sizes and measure the jobs on them."""
    if child is not None:
        job, log, output = child.split(" ")
        print(json.dumps(_measured(job, log, output, memory)))
        return
    shown = Table("records", "job", "s", "of it start", "CPU s", "peak PSS MB", "rows out")
    for size in records:
        with tempfile.TemporaryDirectory(prefix="routerd-bench-") as folder:
            directory = _generated(int(size), hot, logs or Path(folder))
            for job in jobs or JOBS:
                if job != "duckdb" or find_spec("duckdb"):
                    shown.add_row(f"{int(size):,}", JOBS[job], *_run(job, directory, folder, memory))
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


def _run(job: str, log: Path, folder: str, memory: str) -> list[str]:
    """Run one job in a process, and watch the memory of it and its children."""
    with tempfile.TemporaryDirectory(dir=folder) as output:
        command = [sys.executable, "-m", "bench.pipeline", "--memory", memory, "--child", f"{job} {log} {output}"]
        with subprocess.Popen(  # noqa: S603  ourselves
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as running:
            peak = 0
            while running.poll() is None:
                peak = max(peak, _memory(running.pid))
                time.sleep(0.25)
            said: dict[str, Any] = json.loads((running.stdout.read() if running.stdout else "").splitlines()[-1])
    numbers = [f"{said[name]:.1f}" for name in ("seconds", "start", "cpu")]
    return [*numbers, f"{peak / 1e6:.0f}", f"{said['rows']:,}"]


def _memory(pid: int) -> int:
    try:
        process = psutil.Process(pid)
        return sum(one.memory_full_info().pss for one in (process, *process.children(recursive=True)))
    except psutil.Error:
        return 0


def _measured(job: str, log: str, output: str, memory: str) -> dict[str, float]:
    """Run the job in this process; return seconds, seconds before the first record, CPU seconds, and rows."""
    began = time.perf_counter()
    return _duckdb(log, output, began) if job == "duckdb" else _spark(job, log, output, memory, began)


def _spark(job: str, log: str, output: str, memory: str, began: float) -> dict[str, float]:
    from pyspark.sql import functions as f  # noqa: PLC0415  only where Spark is measured

    from pipeline import batch, session  # noqa: PLC0415  the same
    from pipeline.flow_log.records import read_log  # noqa: PLC0415  the same
    from pipeline.flow_log.survey import survey  # noqa: PLC0415  the same
    from pipeline.output.directory import RESULTS, claimed  # noqa: PLC0415  the same
    from pipeline.output.generations import begin  # noqa: PLC0415  the same
    from pipeline.output.results import Results  # noqa: PLC0415  the same
    from pipeline.tables.capacity import Costs  # noqa: PLC0415  the same
    from pipeline.tables.traffic import traffic  # noqa: PLC0415  the same

    with claimed(output, RESULTS, log) as place, session.session(None, {"spark.driver.memory": memory}) as spark:
        spark.range(1).count()
        ready = time.perf_counter()
        results = Results(spark, begin(place))
        found = survey(log)
        records = read_log(spark, found)
        rows = 1
        if job == "scan":
            records.agg(f.sum("size_bytes")).collect()
        elif job == "run":
            results = batch.run(spark, found, place, Costs(), lambda _: None)
        else:
            results.write("traffic", traffic(records))
        if job == "again":
            results = Results(spark, begin(place))
            began = ready = time.perf_counter()
            results.write("traffic", traffic(records))
        ended = time.perf_counter()
        if job in ("traffic", "again", "run"):
            rows = results.read("traffic").count()
        return {"seconds": ended - began, "start": ready - began, "cpu": _cpu(), "rows": rows}


def _duckdb(log: str, output: str, began: float) -> dict[str, float]:
    import duckdb  # noqa: PLC0415  optional

    from shm.contract.flow_log.schema import OUTCOMES  # noqa: PLC0415  the same

    outcomes = ", ".join(f"sum(n_deliveries * sample_weight) filter (outcome = '{one}') as {one}" for one in OUTCOMES)
    ready = time.perf_counter()
    duckdb.sql(MATRIX.format(log=log, output=output, outcomes=outcomes))
    ended = time.perf_counter()
    rows = duckdb.execute(f"select count(*) from '{output}/matrix.parquet'").fetchall()[0][0]  # noqa: S608  our own
    return {"seconds": ended - began, "start": ready - began, "cpu": _cpu(), "rows": rows}


def _cpu() -> float:
    """Return the CPU seconds of this process and its children."""
    own = psutil.Process()
    return float(sum(sum(one.cpu_times()[:2]) for one in (own, *own.children(recursive=True))))


if __name__ == "__main__":
    main()
