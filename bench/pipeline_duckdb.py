# ruff: noqa: S608 - the names are our own
"""Every table of results by DuckDB, from the definitions in docs/pipeline.md and docs/flow-log.md alone.

It is the measure of what tables cost on one machine, and `tests/pipeline/test_sql.py` compares each row with what the
pipeline makes. `transits` and `times` are steps of others.
"""

from collections.abc import Iterable
from typing import Any, Final

from shm.contract.flow_log.schema import OUTCOMES

PERCENTILES: Final = {"p50": 500, "p90": 900, "p99": 990, "p999": 999}  # per mille
OWN: Final = "/([^/]+:[0-9]{1,5})$"  # an endpoint in its own address, behind that of its table
EDGE_NS: Final = 600 * 10**9  # around the end of an hour
FLOW: Final = (
    "router_id, boot_id, ingress_conn_id, ingress_kind, egress_conn_id, egress_kind, peer_container, egress_user, "
    "egress_host, ingress_container, ingress_user, ingress_host, onward_route, return_route, route_state, path, "
    "address, mtype, sub_id, meid, outcome"
)
MATRIX: Final = "minute, origin, router_id, egress_kind, address, mtype"
QUARTER: Final = 'quarter, router_id, address, mtype, container, "outer"'
ROUTE: Final = "onward_route, return_route, route_state"
FROM_CLIENT: Final = "(ingress_kind is null or ingress_kind not in ('inter_router', 'edge'))"
TO_CLIENT: Final = "(egress_kind is null or egress_kind not in ('inter_router', 'edge'))"
SENT: Final = f"({FROM_CLIENT} and not coalesce(further_copy, false))"
ORIGIN: Final = "coalesce(split_part(path, '>', 1), router_id)"
SENDER: Final = "ingress_container as container, ingress_user as user, ingress_host as host"
SENDER_OF: Final = "struct_pack(container := ingress_container, user := ingress_user, host := ingress_host)"
RECEIVER: Final = "peer_container as container, egress_user as user, egress_host as host"
SUMS: Final = "coalesce(sum(weight), 0)::bigint as messages, sum(size_bytes * sample_weight)::bigint as bytes"


def _upto(key: str, *names: str) -> str:
    """Return window columns: how much weight a group has up to each value, and in all."""
    return ", ".join(
        f"sum(if({name} is null, 0, weight)) over (partition by {key} order by {name} rows unbounded preceding) "
        f"as {name}_upto, sum(if({name} is null, 0, weight)) over (partition by {key}) as {name}_all"
        for name in names
    )


def _ranked(name: str, percentiles: Iterable[str] = PERCENTILES) -> str:
    """Return aggregates of rows with `_upto`: the number of messages, and nearest-rank percentiles."""
    found = (
        f"min({name}) filter ({name}_upto > 0 and {name}_upto >= ({name}_all * {PERCENTILES[one]} + 999) // 1000) "
        f"as {name}_{one}"
        for one in percentiles
    )
    return ", ".join([f"coalesce(max({name}_all), 0)::bigint as {name}_n", *found])


def _edge(at: str) -> str:
    """Return the end of an hour to which a time is near."""
    into = f"({at} - began * 3600000000000)"
    return f"case when {into} < {EDGE_NS} then began when {into} >= {3600 * 10**9 - EDGE_NS} then began + 1 end"


def _alike(name: str) -> str:
    return f"min({name}) is not distinct from max({name})"


def tables(worker_us: float = 1.6, core_us: float = 0.25, byte_ns: float = 1.2) -> dict[str, str]:
    """Return the statement that makes each table, in order; they read ``log`` and each other."""
    outcomes = ", ".join(f"sum(if(outcome = '{one}', weight, 0))::bigint as {one}" for one in OUTCOMES)
    added = ", ".join(f"sum({one})::bigint as {one}" for one in ("messages", "bytes", *OUTCOMES))
    return {
        "flows": f"""
            select {FLOW}, {SUMS}, coalesce(sum(if({SENT}, weight, 0)), 0)::bigint as sent,
              coalesce(sum(if({SENT}, size_bytes * sample_weight, 0)), 0)::bigint as sent_bytes,
              sum(if(latency_ns is null, 0, weight))::bigint as passed,
              sum(if(latency_ns is null, 0, size_bytes * sample_weight))::bigint as passed_bytes,
              min(ts) as first, max(ts) as last, max(weight) as heaviest, max(outcome = 'undeliverable') as nobody,
              max(by_meid) as by_meid
            from log group by {FLOW}""",
        "traffic": f"""
            with keyed as (
              select date_trunc('minute', ts) as minute, {ORIGIN} as origin,
                router_id, egress_kind, address, mtype, size_bytes, sample_weight, weight, outcome,
                latency_ns as latency
              from log),
            placed as (select *, {_upto(MATRIX, "latency")} from keyed)
            select {MATRIX}, count(*) as records, {SUMS}, {outcomes}, {_ranked("latency")}, max(latency) as latency_max
            from placed group by {MATRIX}""",
        "latencies": """
            select time_bucket(interval 15 minutes, ts) as quarter, address, mtype,
              floor(log2(greatest(latency_ns, 1)) * 16)::int as bucket, sum(weight)::bigint as messages
            from log where latency_ns is not null group by all""",
        "quarters": f"""
            with keyed as (
              select time_bucket(interval 15 minutes, ts) as quarter, router_id, address, mtype,
                peer_container as container, {TO_CLIENT} as "outer", weight, outcome, error_type, latency_ns,
                credit_wait_ns, settle_ns - latency_ns as answer, latency_ns - coalesce(credit_wait_ns, 0) as own
              from log),
            errors as (
              select {QUARTER}, error_type as error,
                row_number() over (partition by {QUARTER} order by count(*) desc, error_type) as place
              from keyed where error_type is not null group by {QUARTER}, error_type),
            placed as (select *, {_upto(QUARTER, "answer", "own")} from keyed),
            found as (
              select {QUARTER}, count(*) as n, coalesce(sum(weight), 0)::bigint as messages,
                sum(if(outcome in ('rejected', 'modified', 'undeliverable', 'aborted'), weight, 0))::bigint as failed,
                avg(latency_ns) as latency_mean, avg(credit_wait_ns) as credit_mean,
                {_ranked("answer", ("p50",))}, {_ranked("own", ("p50",))}
              from placed group by {QUARTER})
            select found.*, error
            from found left join errors on place = 1 and found.quarter = errors.quarter
              and found.router_id = errors.router_id and found.address is not distinct from errors.address
              and found.mtype = errors.mtype and found.container is not distinct from errors.container
              and found."outer" = errors."outer" """,
        "load": f"""
            with minutes as (
              select date_trunc('minute', ts) as minute, router_id, worker_id, {SUMS} from log group by all),
            shares as (
              select minute, router_id, unnest([worker_id, -1::smallint]) as worker_id, messages, bytes from minutes)
            select minute, router_id, worker_id, sum(messages)::bigint as messages, sum(bytes)::bigint as bytes,
              if(worker_id < 0, sum(messages) * {core_us * 1e3},
                sum(messages) * {worker_us * 1e3} + sum(bytes) * {byte_ns}) / 60e9 as load
            from shares group by minute, router_id, worker_id""",
        "endpoints": f"""
            with copies as (
              select *, mtype >= 0 and (message_number is not null or not contains(coalesce(path, ''), '>')) as decided,
                coalesce(router_id || ' ' || boot_id || ' ' || message_number, 'id ' || msg_id_hash,
                  'row ' || filename || record) as unit,
                if(decided, address, regexp_replace(address, '{OWN}', '')) as sent_to,
                if(mtype >= 0, if({TO_CLIENT}, peer_container, null),
                  nullif(regexp_extract(address, '{OWN}', 1), '')) as endpoint
              from log where egress_conn_id is not null),
            here as (
              select unit, mtype, sub_id, any_value(msg_id_hash) as id, any_value(sent_to) as sent_to,
                max(weight) as messages, count(*) filter (endpoint is null) as gone,
                coalesce(list(distinct endpoint) filter (endpoint is not null), []) as endpoints
              from copies where decided group by unit, mtype, sub_id),
            single as (select id, sent_to from here where id is not null group by all having count(*) = 1),
            there as (
              select msg_id_hash as id, sent_to, max(mtype) as mtype, max(sub_id) as sub_id, max(weight) as messages,
                list(distinct endpoint) as endpoints, count(*) as came
              from copies
              where not decided and {TO_CLIENT} and not {FROM_CLIENT} and msg_id_hash is not null
                and endpoint is not null
              group by id, sent_to),
            found as (
              select there.* from there semi join single
                on there.id = single.id and there.sent_to is not distinct from single.sent_to),
            alone as (
              select there.* from there anti join single
                on there.id = single.id and there.sent_to is not distinct from single.sent_to),
            joined as (
              select here.mtype, here.sub_id, here.messages, gone = 0 or gone = coalesce(came, 0) as whole,
                list_sort(if(gone < coalesce(came, 0), here.endpoints,
                  list_distinct(here.endpoints || coalesce(found.endpoints, [])))) as endpoints
              from here left join found on here.id = found.id and here.sent_to is not distinct from found.sent_to
              union all
              select mtype, sub_id, messages, false, list_sort(endpoints) from alone where mtype >= 0)
            select mtype, sub_id, endpoints, whole, sum(messages)::bigint as messages from joined group by all""",
        "transits": f"""
            with seen as (
              select began, msg_id_hash, path || '>' || peer_container as way, began_ns, weight, sent_ns,
                null as came_ns, message_number as sent_number, null as came_number
              from followed
              where not {TO_CLIENT} and ended_ns is not null and peer_container is not null
              union all
              select began, msg_id_hash, if(contains(path, '>'), path, ingress_container || '>' || path), began_ns,
                null, null, began_ns, null, message_number
              from followed where not {FROM_CLIENT}),
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
            with placed as (select *, {_upto("pair", "transit")} from transits),
            found as (
              select pair, min(transit) as least_ns, {_ranked("transit", ("p50", "p99"))} from placed group by pair),
            counts as (
              select router_id, peer_container as onward, sum(passed)::bigint as messages,
                sum(passed_bytes)::bigint as bytes
              from flows where not {TO_CLIENT} and passed > 0 group by all)
            select counts.*, found.* exclude (pair)
            from counts left join found on pair = router_id || '>' || onward""",
        "times": f"""
            with known as (select * from followed where ended_ns is not null),
            entered as (
              select began, msg_id_hash, router_id as origin, min(began_ns) as start_ns,
                {_edge("min(began_ns)")} as edge, {_alike("message_number")} as alone
              from known where path = router_id and not {TO_CLIENT}
              group by began, msg_id_hash, router_id),
            gone as (
              select began, msg_id_hash, split_part(path, '>', 1) as origin, path, ended_ns, weight,
                {_edge("began_ns")} as edge
              from known where path <> router_id and {TO_CLIENT}),
            rest as (select * from gone anti join entered using (began, msg_id_hash, origin))
            select path, took, sum(weight)::bigint as weight
            from (
              select path, ended_ns - start_ns as took, weight
              from gone join entered using (began, msg_id_hash, origin) where alone
              union all
              select path, ended_ns - start_ns, weight
              from rest join entered using (edge, msg_id_hash, origin) where alone)
            group by all""",
        "hops": """
            with clocks as (
              select one.*, trunc((one.least_ns - back.least_ns) / 2.0)::bigint as clock_ns
              from links as one left join links as back on one.router_id = back.onward and one.onward = back.router_id)
            select router_id, onward, messages, bytes, clock_ns, coalesce(transit_n, 0) as transit_n,
              transit_p50 - coalesce(clock_ns, 0) as transit_p50, transit_p99 - coalesce(clock_ns, 0) as transit_p99
            from clocks""",
        "journeys": f"""
            with placed as (select *, {_upto("path", "took")} from times),
            found as (select path, {_ranked("took", ("p50", "p90", "p99"))} from placed group by path),
            steps as (
              select path, routers[step] as router_id, routers[step + 1] as onward
              from (select path, routers, unnest(range(1, len(routers))) as step
                from (select path, split(path, '>') as routers from found))),
            clocks as (
              select path, if(count(clock_ns) = count(*), sum(clock_ns)::bigint, null) as clock_ns
              from steps left join hops using (router_id, onward) group by path)
            select path, clock_ns, took_n, took_p50 - coalesce(clock_ns, 0) as took_p50,
              took_p90 - coalesce(clock_ns, 0) as took_p90, took_p99 - coalesce(clock_ns, 0) as took_p99
            from found left join clocks using (path)""",
        "taken": f"""
            select {ORIGIN} as origin, router_id as target, path, {ROUTE}, {SUMS}, min(ts) as first, max(ts) as last,
              max(address) as address
            from log where path is not null and {TO_CLIENT} group by all""",
        "ways": f"""
            with found as (
              select *, split(path, '>') as way, coalesce({ROUTE}) is not null as routed from taken),
            looped as (select *, not routed and len(list_distinct(way)) < len(way) as loop from found),
            used as (
              select origin, target, arg_max(way, (messages, -row)) as way
              from (select *, row_number() over (order by path) as row from looped where not routed and not loop)
              group by origin, target)
            select looped.origin, looped.target, path, {ROUTE}, len(looped.way)::int as routers, messages, bytes, first,
              last, address, coalesce(not routed and looped.way = used.way, false) as usual,
              coalesce(not routed and not loop and len(looped.way) > len(used.way), false) as detour, loop,
              coalesce(usual and list_reverse(back.way) <> looped.way, false) as "asymmetric",
              if(routed, null, array_to_string(back.way, '>')) as way_back
            from looped
              left join used on looped.origin = used.origin and looped.target = used.target
              left join used as back on looped.origin = back.target and looped.target = back.origin""",
        "talkers": f"""
            with ends as (
              select 'sender' as role, router_id, {SENDER}, address, mtype, weight, size_bytes, sample_weight, outcome
              from log where {SENT} and weight > 0
              union all
              select 'receiver', router_id, {RECEIVER}, address, mtype, weight, size_bytes, sample_weight, outcome
              from log where egress_conn_id is not null and {TO_CLIENT}),
            subjects as (
              select role, router_id, container, user, host, address, mtype, {SUMS}, {outcomes} from ends group by all),
            found as (
              select role, router_id, container, user, host, count(*) as addresses,
                arg_max_null(address, (messages, address is not null, address, mtype)) as address,
                arg_max(mtype, (messages, address is not null, address, mtype)) as mtype, {added}
              from subjects group by role, router_id, container, user, host)
            select *, row_number() over (partition by role order by messages desc, router_id, container nulls first,
              user nulls first, host nulls first)::int as place
            from found""",
        "conversations": f"""
            with onward as (
              select *, if({FROM_CLIENT}, {SENDER_OF}, null) as sender
              from log
              where ({FROM_CLIENT} or path = router_id) and egress_conn_id is not null and not {TO_CLIENT}),
            only_one as (
              select router_id as origin, address, mtype, any_value(sender) as sender
              from onward group by all having count(distinct sender) = 1 and count(sender) = count(*)),
            entered as (
              select msg_id_hash, router_id as origin, any_value(sender) as sender
              from onward
              where path = router_id and latency_ns is not null
                and msg_id_hash is not null
              group by all having count(distinct sender) = 1 and {_alike("message_number")}),
            went as (
              select log.*, {ORIGIN} as origin, {FROM_CLIENT} as near,
                not near and coalesce(contains(path, '>'), false) as far
              from log where egress_conn_id is not null and {TO_CLIENT}),
            ends as (
              select went.*, if(near, {SENDER_OF}, coalesce(entered.sender, only_one.sender)) as sender
              from went
                left join entered on not near and latency_ns is not null and path <> router_id
                  and went.msg_id_hash = entered.msg_id_hash and went.origin = entered.origin
                left join only_one on far and went.origin = only_one.origin
                  and went.address is not distinct from only_one.address and went.mtype = only_one.mtype),
            times as (
              select *, min(ts) over together as first_, max(ts) over together as last_
              from ends window together as (partition by far, origin, if(near, sender, null), address, mtype,
                router_id, peer_container, egress_user, egress_host))
            select origin, sender.container as sender_container, sender.user as sender_user, sender.host as sender_host,
              address, mtype, router_id, peer_container as receiver_container, egress_user as receiver_user,
              egress_host as receiver_host, {SUMS}, min(first_) as first, max(last_) as last
            from times group by all""",
        "unheard": f"""
            select address, mtype, sum(weight) filter ({TO_CLIENT})::bigint as messages,
              min(ts) filter ({TO_CLIENT}) as first, max(ts) filter ({TO_CLIENT}) as last,
              list_sort(list(distinct router_id) filter ({TO_CLIENT})) as routers
            from log group by address, mtype
            having bool_or(outcome = 'undeliverable') and count(egress_conn_id) filter (
              {TO_CLIENT} or peer_container not in (select router_id from log)) = 0""",
        "entities": f"""
            select meid, mtype, sub_id, peer_container as endpoint, sum(weight)::bigint as messages,
              max(by_meid) as by_meid, max(ts) as last
            from log where mtype >= 0 and meid is not null and egress_conn_id is not null and {TO_CLIENT}
            group by all""",
        "findings": _findings(),
        "processes": """
            with peaks as (
              select router_id, worker_id, epoch_ms(minute) // 86400000 as day, quantile_disc(load, 0.99) as peak
              from load group by all),
            trend as (
              select router_id, worker_id, if(count(*) > 1, regr_slope(peak, day), null) as growth,
                arg_max(peak, day) as latest
              from peaks group by all)
            select router_id, worker_id, sum(messages)::bigint as messages, sum(bytes)::bigint as bytes,
              avg(load) as load_mean, quantile_disc(load, 0.99) as load_peak,
              arg_max(minute, (load, minute)) as busiest, any_value(growth) as growth_per_day,
              if(growth_per_day > 1e-9, greatest(0, 0.7 - any_value(latest)) / growth_per_day, null) as full_in_days
            from load join trend using (router_id, worker_id) group by router_id, worker_id""",
        "advice": """
            with found as (
              select router_id, count(*) filter (worker_id >= 0) as workers,
                sum(load_peak) filter (worker_id >= 0) as worker_peak,
                max(load_peak) filter (worker_id < 0) as core_peak,
                min(full_in_days) filter (worker_id >= 0) as next_worker_in_days
              from processes group by router_id)
            select *, greatest(1, ceil(worker_peak / 0.7))::int as workers_needed, workers_needed + 1 as cpus
            from found""",
    }  # fmt: skip


def _findings() -> str:
    """Return the statement of the findings, by the limits in docs/pipeline.md."""
    quarter, same = "quarter, router_id, address, mtype, container", "address, mtype"
    median = "quantile_disc({}, 0.5)"
    series = "partition by kind, router_id, address, mtype, container order by quarter"
    return f"""
        with heard as (
          select *,
            least({median.format("answer_p50")} over (),
              {median.format("answer_p50")} over (partition by {same})) as usual
          from quarters where "outer" and answer_p50 is not null and n >= 10),
        slow as (
          select 'slow consumer' as kind, {quarter}, n, answer_p50::double as value, usual::double as usual
          from heard where answer_p50 >= 100e6 and answer_p50 >= 10 * usual),
        starved as (
          select 'credit starvation', {quarter}, n, credit_mean, latency_mean from quarters
          where "outer" and n >= 10 and credit_mean >= 50e6 and credit_mean >= 0.5 * latency_mean
            and coalesce(answer_p50 < 100e6, true)),
        shares as (
          select quarter, {same}, sum(n)::bigint as n, sum(failed) / sum(messages) as value,
            arg_max(error, (failed, error)) as error, arg_max(router_id, (failed, router_id)) as router_id
          from quarters where "outer" group by all),
        usual_shares as (select *, {median.format("value")} over (partition by {same}) as usual from shares),
        bursts as (
          select 'error burst', quarter, router_id, {same}, error, n, value, usual from usual_shares
          where n >= 10 and value >= 0.2 and value >= 5 * usual),
        own as (
          select quarter, router_id, {same}, sum(n)::bigint as n, sum(own_p50::double * own_n) / sum(own_n) as value
          from quarters where own_p50 is not null group by all),
        before as (
          select one.quarter, one.router_id, one.address, one.mtype, avg(other.value) as usual
          from own as one join own as other on one.router_id = other.router_id
            and one.address is not distinct from other.address and one.mtype = other.mtype
            and hour(one.quarter) = hour(other.quarter) and other.quarter::date < one.quarter::date
          group by all),
        shifts as (
          select 'latency shift', own.quarter, own.router_id, own.address, own.mtype, null, n, value, usual
          from own join before on own.quarter = before.quarter and own.router_id = before.router_id
            and own.address is not distinct from before.address and own.mtype = before.mtype
          where n >= 10 and value - usual >= 500e3 and value >= 3 * usual),
        found as (from slow union all from starved union all from bursts union all from shifts),
        place as (
          select *, sum(begins) over ({series}) as number
          from (
            select *, coalesce(quarter - lag(quarter) over ({series}) > interval 30 minutes, true)::int as begins
            from found)),
        lines as (
          select kind, min(quarter) as first, max(quarter) + interval 15 minutes as last, router_id, address, mtype,
            container, sum(n)::bigint as n, max(value) as value, arg_max(usual, value) as usual
          from place group by kind, router_id, address, mtype, container, number),
        odd as (
          select unnest(list_filter([if(loop, 'loop', null), if(detour, 'detour', null),
            if("asymmetric" and origin < target, 'asymmetric pair', null)], lambda kind: kind is not null)) as kind, *
          from ways)
        from lines
        union all
        select kind, first, last, target, address, -1, path, messages, routers, null from odd
        union all
        select 'no consumers', first, last, routers[1], address, mtype, null, messages, null, null from unheard"""


LOG: Final = """
create view log as
  select *, n_deliveries * sample_weight as weight, epoch_us(ts) // 3600000000 as began,
    epoch_us(ts) * 1000 as began_ns, file_row_number as record
  from read_parquet('{log}/raw/*/*/*.parquet', file_row_number = true, filename = true, union_by_name = true);
create view followed as
  select *, began_ns + latency_ns as ended_ns, began_ns + queue_ns as sent_ns
  from log where path is not null and msg_id_hash is not null
"""


def make(database: Any, log: str, output: str, names: Iterable[str]) -> None:
    """Make these tables of a log, each a file in the directory ``output``."""
    database.execute("set timezone = 'UTC'")
    database.execute(LOG.format(log=log))
    statements = tables()
    for name in names:
        database.execute(f"create table {name} as {statements[name]}")
        database.execute(f"copy {name} to '{output}/{name}.parquet' (format parquet, compression zstd)")
