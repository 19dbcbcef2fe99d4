"""The traffic matrix of a growing log: Structured Streaming counts each record once.

The sums of every batch become a part of the output (`pipeline.output.parts`), and parts add up: the stream keeps
nothing in memory, and still counts a late record. The watermark says which minutes are complete.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final

from pyarrow import fs
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from pipeline.errors import PipelineError
from pipeline.flow_log.records import FLOW, KEY
from pipeline.flow_log.survey import Watch
from pipeline.output.directory import Output
from pipeline.output.parts import Parts, State, prepare
from pipeline.output.spans import Ledger, Range, add, meet, taken
from pipeline.tables.measures import PERCENTILES, bucket, bucket_end, messages, octets, outcomes, weight
from pipeline.tables.traffic import KEY as MATRIX
from pipeline.tables.traffic import keyed
from shm.contract.flow_log.schema import OUTCOMES, RAW

SUMS: Final = ("records", "messages", "bytes", *OUTCOMES, "latency_n", "latency_sum")
FOLD_AT: Final = 64  # parts; more are folded into one sum

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How the stream runs: ``once`` takes what is there and ends; ``delay_s`` is how late records may be."""

    once: bool = False
    every_s: float = 5.0
    files: int = 500  # at most in a batch
    delay_s: float = 60.0


def run(spark: SparkSession, source: str, output: Output, pace: Pace, tell: Tell) -> None:
    """Add what is new in the log to a claimed output, until interrupted or, with ``once``, until nothing is left.

    Raises ``PipelineError`` for an unusable directory, a file of a later version, or a failed batch.
    """
    log, raw = raw_of(source)
    prepare(output)
    parts = Parts(spark, output.directory)
    # A batch cannot leave a file out: `Watch` names bad ones. Records of a file deleted before it was read are missing.
    for bad in ("Corrupt", "Missing"):
        spark.conf.set(f"spark.sql.files.ignore{bad}Files", "true")
    records = (
        spark.readStream.schema(FLOW)
        .option("maxFilesPerTrigger", pace.files)
        .option("recursiveFileLookup", "true")
        .parquet(log.url(raw))
    )
    batches = _Batches(parts, Watch(log.files, raw, source), pace, tell)
    named = records.select("*", f.col("_metadata.file_path").alias("file"))
    writer = named.writeStream.foreachBatch(batches.take).option("checkpointLocation", parts.checkpoint)
    once = {"availableNow": True} if pace.once else {"processingTime": f"{pace.every_s} seconds"}
    query = writer.trigger(**once).start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        raise batches.failure or PipelineError(f"the stream ended: {str(error).splitlines()[0]}") from error
    finally:
        query.stop()


def raw_of(source: str) -> tuple[Output, str]:
    """Return the log, and the path of the tree in which files appear and never change: compacted ones count twice."""
    log = Output(source)
    chosen = log.path(RAW) if _there(log.files, log.path(RAW)) else log.root
    if not _there(log.files, chosen):
        raise PipelineError(f"{source} is not a directory; give the directory of a flowLog")
    return log, chosen


def _there(files: Any, path: str) -> bool:
    return bool(files.get_file_info(path).type == fs.FileType.Directory)


class _Batches:
    """Takes one batch after another."""

    def __init__(self, parts: Parts, watch: Watch, pace: Pace, tell: Tell) -> None:
        self._parts = parts
        self._watch = watch
        self._pace = pace
        self._tell = tell
        self.failure: PipelineError | None = None

    def take(self, batch: DataFrame, number: int) -> None:
        """Add a batch to the output. After a crash Spark passes the same batch again."""
        try:
            for skipped in self._watch.fresh():
                self._tell(str(skipped))
        except PipelineError as error:
            self.failure = error
            raise
        before = self._parts.state_before(number)
        if before is None:
            return
        records = batch.where("router_id is not null and seq is not null")  # a file of something else has none
        fresh, state = once_only(records, before)
        state.batch = number
        self._parts.write(sums(fresh), state)
        self._say(state)
        if self._parts.number > FOLD_AT and (all_ := self._parts.read()) is not None:
            self._parts.fold(added(all_))

    def _say(self, state: State) -> None:
        closed = _moment(state.closed_until(self._pace.delay_s))
        missing = f", {missing} missing" if (missing := state.missing()) else ""
        self._tell(f"batch {state.batch}: {state.records} records so far{missing}; minutes complete until {closed}")


def _moment(micros: int | None) -> str:
    if micros is None:
        return "-"
    return datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def once_only(records: DataFrame, before: State) -> tuple[DataFrame, State]:
    """Return the records of a batch that were not taken before, each once, and the state after it."""
    spans = (
        records.groupBy(*KEY[:3], "file")
        .agg(f.min("seq"), f.max("seq"), f.count("*"), f.max(f.unix_micros("ts")))
        .collect()
    )
    ledger: Ledger = dict(before.taken)
    heard = dict(before.heard)
    repeats: list[tuple[tuple[str, str, int], Range]] = []
    ranges: dict[str, list[Range]] = defaultdict(list)
    twice = False
    for router, boot, worker, _, first, last, count, newest in sorted(spans, key=tuple):
        name = f"{router} {boot} {worker}"
        repeats += [((router, boot, worker), one) for one in taken(before.taken.get(name, []), (first, last))]
        ranges[name].append((first, last))
        twice |= count > last - first + 1
        ledger[name] = add(ledger.get(name, []), (first, last))
        heard[router] = max(newest, heard.get(router, newest))
    fresh = records
    if repeats:
        fresh = fresh.where(~reduce(Column.__or__, (_within(writer, one) for writer, one in repeats)))
    if twice or any(meet(one) for one in ranges.values()):
        fresh = fresh.dropDuplicates(list(KEY))
    given = sum(row[6] for row in spans)
    count = given if fresh is records else fresh.count()
    return fresh, State(-1, before.records + count, before.repeated + given - count, ledger, heard)


def _within(writer: tuple[str, str, int], numbers: Range) -> Column:
    router, boot, worker = writer
    same = (f.col("router_id") == router) & (f.col("boot_id") == boot) & (f.col("worker_id") == worker)
    return same & f.col("seq").between(*numbers)


def sums(records: DataFrame) -> DataFrame:
    """Return sums, which add up, by the key of the matrix and the bucket of latency; null where there is no latency."""
    known = f.col("latency_ns").isNotNull()
    return (
        keyed(records)
        .groupBy(*MATRIX, bucket("latency_ns").alias("bucket"))
        .agg(
            f.count("*").alias("records"),
            messages(),
            octets(),
            *outcomes(),
            f.sum(f.when(known, weight()).otherwise(0)).alias("latency_n"),
            f.sum(f.when(known, f.col("latency_ns") * weight()).otherwise(0)).alias("latency_sum"),
        )
    )


def added(parts: DataFrame) -> DataFrame:
    """Return parts added up."""
    return parts.groupBy(*MATRIX, "bucket").agg(*(f.sum(name).alias(name) for name in SUMS))


def traffic(parts: DataFrame) -> DataFrame:
    """Return the traffic matrix from parts. Its percentiles are the ends of their buckets, unlike the batch job's."""
    counts = f.sort_array(f.collect_list(f.struct("bucket", "latency_n")))
    matrix = (
        added(parts)
        .groupBy(*MATRIX)
        .agg(
            *(f.sum(name).alias(name) for name in SUMS),
            f.filter(counts, lambda one: one["bucket"].isNotNull()).alias("buckets"),
        )
    )
    return matrix.select(
        *MATRIX, *SUMS, *(_percentile(per_mille).alias(f"latency_{name}") for name, per_mille in PERCENTILES.items())
    )


def _percentile(per_mille: int) -> Column:
    rank = f.floor((f.col("latency_n") * per_mille + 999) / 1000)

    def step(state: Column, one: Column) -> Column:
        further = f.struct((state["sum"] + one["latency_n"]).alias("sum"), one["bucket"].alias("at"))
        return f.when(state["sum"] >= rank, state).otherwise(further)

    start = f.struct(f.lit(0).cast("long").alias("sum"), f.lit(None).cast("int").alias("at"))
    return bucket_end(f.aggregate("buckets", start, step)["at"])
