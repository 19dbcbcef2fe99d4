# ruff: noqa: S608 - the names are our own
"""The same tables by DuckDB, as the measure of what they cost on one machine: those that read the log, with equal rows.

The tables made from `flows` alone are left out: it has a few hundred rows.
"""

from collections.abc import Iterable
from typing import Any, Final

from pipeline.tables.anomalies import FAILED
from pipeline.tables.capacity import Costs
from pipeline.tables.flows import KEY as FLOW
from pipeline.tables.measures import PERCENTILES
from pipeline.tables.paths import EDGE_S
from pipeline.tables.traffic import KEY as MATRIX
from shm.contract.flow_log.schema import OUTCOMES

QUARTER: Final = ("quarter", "router_id", "address", "mtype", "container", "outer")
OUTER: Final = "(egress_kind is null or egress_kind <> 'inter_router')"
SUMS: Final = (
    "coalesce(sum(weight), 0)::bigint as messages, sum(size_bytes * sample_weight)::bigint as bytes, "
    "count(*) as records"
)


def _upto(key: Iterable[str], *names: str) -> str:
    """Return window columns: how much weight a group has up to each value, and in all."""
    group = ", ".join(key)
    return ", ".join(
        f"sum(if({name} is null, 0, weight)) over (partition by {group} order by {name} rows unbounded preceding) "
        f"as {name}_upto, sum(if({name} is null, 0, weight)) over (partition by {group}) as {name}_all"
        for name in names
    )


def _ranked(name: str, percentiles: Iterable[str] = PERCENTILES) -> str:
    """Return aggregates of rows with `_upto`, as `pipeline.tables.measures.ranked`."""
    found = (
        f"min({name}) filter ({name}_upto > 0 and {name}_upto >= ({name}_all * {PERCENTILES[one]} + 999) // 1000) "
        f"as {name}_{one}"
        for one in percentiles
    )
    return ", ".join([f"coalesce(max({name}_all), 0)::bigint as {name}_n", *found])


def _edge(at: str) -> str:
    """Return the end of an hour to which a time is near."""
    into = f"({at} - began * 3600000000000)"
    return f"case when {into} < {EDGE_S * 10**9} then began when {into} >= {(3600 - EDGE_S) * 10**9} then began + 1 end"


def _alike(name: str) -> str:
    return f"min({name}) is not distinct from max({name})"


def tables(costs: Costs | None = None) -> dict[str, str]:
    """Return the statement that makes each table, in order; they read ``log`` and each other."""
    costs = costs or Costs()
    matrix, quarter, flow = ", ".join(MATRIX), ", ".join(QUARTER), ", ".join(FLOW)
    outcomes = ", ".join(f"sum(if(outcome = '{one}', weight, 0))::bigint as {one}" for one in OUTCOMES)
    failed = ", ".join(f"'{one}'" for one in FAILED)
    return {
        "flows": f"""
            select {flow}, {SUMS}, sum(if(latency_ns is null, 0, weight))::bigint as passed,
              sum(if(latency_ns is null, 0, size_bytes * sample_weight))::bigint as passed_bytes,
              min(ts) as first, max(ts) as last, max(weight) as heaviest, max(outcome = 'undeliverable') as nobody,
              max(by_meid) as by_meid
            from log group by {flow}""",
        "traffic": f"""
            with keyed as (
              select date_trunc('minute', ts) as minute, coalesce(split_part(path, '>', 1), router_id) as origin,
                router_id, egress_kind, address, mtype, size_bytes, sample_weight, weight, outcome,
                latency_ns as latency
              from log),
            placed as (select *, {_upto(MATRIX, "latency")} from keyed)
            select {matrix}, {SUMS}, {outcomes}, {_ranked("latency")}, max(latency) as latency_max
            from placed group by {matrix}""",
        "quarters": f"""
            with keyed as (
              select time_bucket(interval 15 minutes, ts) as quarter, router_id, address, mtype,
                peer_container as container, {OUTER} as outer, weight, outcome, error_type, latency_ns, credit_wait_ns,
                settle_ns - latency_ns as answer, latency_ns - coalesce(credit_wait_ns, 0) as own
              from log),
            placed as (select *, {_upto(QUARTER, "answer", "own")} from keyed)
            select {quarter}, count(*) as n, coalesce(sum(weight), 0)::bigint as messages,
              sum(if(outcome in ({failed}), weight, 0))::bigint as failed, mode(error_type) as error,
              avg(latency_ns) as latency_mean, avg(credit_wait_ns) as credit_mean,
              {_ranked("answer", ("p50",))}, {_ranked("own", ("p50",))}
            from placed group by {quarter}""".replace(" outer", ' "outer"'),
        "load": f"""
            with minutes as (
              select date_trunc('minute', ts) as minute, router_id, worker_id, {SUMS} from log group by all),
            shares as (
              select minute, router_id, unnest([worker_id, -1::smallint]) as worker_id, messages, bytes from minutes)
            select minute, router_id, worker_id, sum(messages)::bigint as messages, sum(bytes)::bigint as bytes,
              if(worker_id < 0, sum(messages) * {costs.core_us * 1e3},
                sum(messages) * {costs.worker_us * 1e3} + sum(bytes) * {costs.byte_ns}) / 60e9 as load
            from shares group by minute, router_id, worker_id""",
        "endpoints": f"""
            with copies as (
              select mtype, sub_id, list_sort(list(distinct peer_container)) as endpoints
              from log where mtype >= 0 and egress_conn_id is not null and {OUTER}
              group by began, mtype, sub_id,
                if(message_number is null, null, (router_id, boot_id, message_number)),
                if(message_number is null, coalesce(msg_id_hash, record), null))
            select mtype, sub_id, endpoints, count(*) as messages from copies group by mtype, sub_id, endpoints""",
        "transits": f"""
            with seen as (
              select began, msg_id_hash, path || '>' || peer_container as way, began_ns, weight, ended_ns as sent_ns,
                null as came_ns, message_number as sent_number, null as came_number
              from followed
              where egress_kind = 'inter_router' and ended_ns is not null and peer_container is not null
              union all
              select began, msg_id_hash, path, began_ns, null, null, began_ns, null, message_number
              from followed where contains(path, '>')),
            passed as (
              select began, msg_id_hash, way, min(sent_ns) as sent_ns, min(came_ns) as came_ns, min(began_ns) as at_ns,
                max(weight) as weight
              from seen group by began, msg_id_hash, way
              having {_alike("sent_number")} and {_alike("came_number")}),
            edges as (
              select {_edge("at_ns")} as edge, msg_id_hash, way, min(sent_ns) as sent_ns, min(came_ns) as came_ns,
                min(weight) as weight
              from passed where (sent_ns is null or came_ns is null) and edge is not null group by all)
            select array_to_string(split(way, '>')[-2:], '>') as pair, came_ns - sent_ns as transit,
              sum(weight)::bigint as weight
            from (select way, sent_ns, came_ns, weight from passed union all
              select way, sent_ns, came_ns, weight from edges)
            where sent_ns is not null and came_ns is not null group by all""",
        "links": f"""
            with placed as (select *, {_upto(("pair",), "transit")} from transits),
            found as (
              select pair, min(transit) as least_ns, {_ranked("transit", ("p50", "p99"))} from placed group by pair),
            counts as (
              select router_id, peer_container as onward, sum(passed)::bigint as messages,
                sum(passed_bytes)::bigint as bytes
              from flows where egress_kind = 'inter_router' and path is not null and passed > 0 group by all)
            select counts.*, found.* exclude (pair)
            from counts left join found on pair = router_id || '>' || onward""",
        "times": f"""
            with known as (select * from followed where ended_ns is not null),
            entered as (
              select began, msg_id_hash, router_id as origin, min(began_ns) as start_ns,
                {_alike("message_number")} as alone
              from known where path = router_id and egress_kind = 'inter_router' group by all),
            gone as (
              select began, msg_id_hash, split_part(path, '>', 1) as origin, path, began_ns, ended_ns, weight
              from known where path <> router_id and {OUTER}),
            joined as (
              select *, coalesce(began_ns, start_ns) as at_ns
              from gone full join entered using (began, msg_id_hash, origin) where alone is null or alone),
            half as (
              select distinct *, {_edge("at_ns")} as edge from joined where ended_ns is null or start_ns is null),
            over_ as (
              select one.path, one.ended_ns - other.start_ns as took, one.weight
              from half as one join half as other using (edge, msg_id_hash, origin)
              where one.ended_ns is not null and other.start_ns is not null)
            select path, took, sum(weight)::bigint as weight
            from (select path, ended_ns - start_ns as took, weight from joined union all select * from over_)
            where took is not null group by all""",
        "journeys": f"""
            with placed as (select *, {_upto(("path",), "took")} from times)
            select path, {_ranked("took", ("p50", "p90", "p99"))} from placed group by path""",
    }  # fmt: skip


LOG: Final = """
create view log as
  select *, n_deliveries * sample_weight as weight, epoch_us(ts) // 3600000000 as began,
    epoch_us(ts) * 1000 as began_ns, file_row_number as record
  from read_parquet('{log}/raw/*/*/*.parquet', file_row_number = true);
create view followed as
  select *, began_ns + latency_ns as ended_ns from log where path is not null and msg_id_hash is not null
"""


def make(database: Any, log: str, output: str, names: Iterable[str]) -> None:
    """Make these tables of a log, each a file in the directory ``output``."""
    database.execute("set timezone = 'UTC'")
    database.execute(LOG.format(log=log))
    statements = tables()
    for name in names:
        database.execute(f"create table {name} as {statements[name]}")
        database.execute(f"copy {name} to '{output}/{name}.parquet' (format parquet, compression zstd)")
