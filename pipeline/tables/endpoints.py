"""Which endpoints got copies of the same message, and the load of each managed entity: what a plan is made from."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from pipeline.flow_log.records import require
from pipeline.tables.flows import client
from pipeline.tables.measures import gathered, hour, weight
from pipeline.tables.paths import edge

NEEDS: Final = (
    "ts", "router_id", "boot_id", "ingress_kind", "egress_kind", "egress_conn_id", "peer_container", "path", "address",
    "mtype", "sub_id", "msg_id_hash", "message_number", "n_deliveries", "sample_weight",
)  # fmt: skip
OWN_ADDRESS: Final = r"/([^/]+:\d{1,5})$"  # of an endpoint, behind that of its table
KNOWN: Final = "mtype >= 0"  # a copy alone may be of any message
ORDER: Final = ("meid", "mtype", "sub_id", "endpoint")
OF_WAIT: Final = ("msg_id_hash", "sent_to", "decided", "gone", "came", "others")
# Copies of a message went on (`gone`) and were found at other routers (`came`). Where more are found than went, some
# are of another message with the same id, and nobody knows which.
WHOLE: Final = "decided and (gone = 0 or gone = came)"
SET: Final = "if(decided and came > gone, endpoints, array_sort(array_union(endpoints, others)))"


def entity_loads(flows: DataFrame) -> DataFrame:
    """Return one row for each managed entity, message type and endpoint: messages that left the network for it.

    The rows are in order, in one file when they are written, so that a plan sees one entity after the other.
    ``by_meid`` is whether a route table chose the entity's owner, null where the log does not say. ``last`` is when
    the last of the messages came.
    """
    return (
        flows.where("mtype >= 0 and egress_conn_id is not null and meid is not null")
        .where(client("egress_kind"))
        .groupBy("meid", "mtype", "sub_id", f.col("peer_container").alias("endpoint"))
        .agg(f.sum("messages").alias("messages"), f.max("by_meid").alias("by_meid"), f.max("last").alias("last"))
        .repartition(1)
        .sortWithinPartitions(*ORDER)
    )


def endpoint_sets(log: DataFrame) -> DataFrame:
    """Return by hour the sets of endpoints that received copies of the same message, with how many messages.

    The router whose table a message goes by has its key in the records of all copies, which share a number and a time.
    A copy to an endpoint at another router has a record there, too: it goes to the endpoint's own address,
    ``TABLE/HOST:PORT``, has no key, and is known by ``msg_id_hash`` and the table. Logs without message numbers have
    the key at each router.

    A set is ``whole`` if as many copies are found at other routers as went there. A message of which copies are
    missing, or were found alone, is a row of its own if it is near the end of an hour (``edge``), with the endpoints
    of copies found at other routers apart (``others``): `endpoints` looks for the rest of it in the other hour.
    """
    same = Window.partitionBy("began", "id", "sent_to")
    single = f.equal_null(f.min("unit").over(same), f.max("unit").over(same))
    copies = gathered(_copies(log)).select("*", single.alias("single"))
    found = (
        copies.groupBy("began", "id", "sent_to", f.when(~f.col("single"), f.xxhash64("unit")).alias("one_of_several"))
        .agg(
            f.max("decided").alias("decided"),
            f.count(f.when(f.col("decided") & f.col("endpoint").isNull(), 1)).alias("gone"),
            f.count(f.when(~f.col("decided"), f.col("endpoint"))).alias("came"),
            f.max("mtype").alias("mtype"),
            f.max("sub_id").alias("sub_id"),
            f.sort_array(f.collect_set(f.when(f.col("decided"), f.col("endpoint")))).alias("endpoints"),
            f.sort_array(f.collect_set(f.when(~f.col("decided"), f.col("endpoint")))).alias("others"),
            f.coalesce(f.max(f.when(f.col("decided"), f.col("weight"))), f.max("weight")).alias("messages"),
            f.min("at_ns").alias("at_ns"),
            f.max(f.when(f.col("single"), f.col("msg_id_hash"))).alias("msg_id_hash"),
        )
        .withColumn("whole", f.expr(WHOLE))
        .withColumn("edge", f.when(~f.col("whole") & f.col("msg_id_hash").isNotNull(), edge("at_ns")))
    )
    waits = f.col("edge").isNotNull()
    together = f.when(waits, f.col("endpoints")).otherwise(f.expr(SET)).alias("endpoints")
    return (
        found.where(waits | f.expr(KNOWN))
        .select(
            "began", "edge", *(f.when(waits, f.col(name)).alias(name) for name in OF_WAIT), "mtype", "sub_id", together,
            "whole", "messages",
        )
        .groupBy("began", "edge", *OF_WAIT, "mtype", "sub_id", "endpoints", "whole")
        .agg(f.sum("messages").alias("messages"))
    )  # fmt: skip


def _copies(log: DataFrame) -> DataFrame:
    """Return copies by route tables, ``decided`` at the router of the table, and those found at other routers.

    ``unit`` tells the messages of a router apart, ``sent_to`` is the address of the table, and ``endpoint`` is null
    where a copy went on to another router, or the name of its receiver is not known.
    """
    number, key = f.col("message_number"), f.col("mtype") >= 0
    onward = f.coalesce(f.locate(">", f.col("path")) > 0, f.lit(False))
    decided = key & (number.isNotNull() | ~onward)
    name = f.regexp_extract(f.coalesce("address", f.lit("")), OWN_ADDRESS, 1)
    came = client("egress_kind") & ~client("ingress_kind") & f.col("msg_id_hash").isNotNull()
    key_of = (f.when(number.isNull(), f.col(name)).alias(name) for name in ("mtype", "sub_id"))
    unit = f.struct("router_id", "boot_id", "message_number", *key_of)
    sent_to = f.when(decided, f.col("address")).otherwise(f.regexp_replace("address", OWN_ADDRESS, ""))
    alone = f.coalesce(f.when(number.isNotNull(), f.xxhash64(unit)), f.monotonically_increasing_id())
    endpoint = f.when(key, f.when(client("egress_kind"), f.col("peer_container"))).otherwise(name)
    return (
        require(log, NEEDS, "the plan")
        .where(f.col("egress_conn_id").isNotNull() & (decided | (came & (key | (name != "")))))
        .select(
            hour(),
            f.coalesce("msg_id_hash", alone).alias("id"),
            f.when(decided, unit).alias("unit"),
            decided.alias("decided"),
            sent_to.alias("sent_to"),
            endpoint.alias("endpoint"),
            "msg_id_hash", "mtype", "sub_id",
            weight().alias("weight"),
            (f.unix_micros("ts") * 1000).alias("at_ns"),
        )
    )  # fmt: skip


def endpoints(days: DataFrame) -> DataFrame:
    """Return the sets of endpoints of hours or days, added up over all time, also of messages over the end of one."""
    return _added_up(whole_sets(days))


def daily(sets: DataFrame) -> DataFrame:
    """Return `whole_sets` added up by day."""
    return _added_up(sets, f.date_trunc("day", "began").alias("began"))


def _added_up(sets: DataFrame, *by: Column) -> DataFrame:
    return sets.groupBy(*by, "mtype", "sub_id", "endpoints", "whole").agg(f.sum("messages").alias("messages"))


def whole_sets(hours: DataFrame) -> DataFrame:
    """Return the sets of endpoints of hours, also those of messages over the end of an hour."""
    same = Window.partitionBy("edge", "msg_id_hash", "sent_to")
    several = f.count(f.when(f.col("decided"), 1)).over(same) > 1  # messages with this id
    apart = f.when(several, f.col("began")).alias("one_of_several")

    def all_of(name: str) -> Column:
        return f.array_sort(f.array_distinct(f.flatten(f.collect_list(name)))).alias(name)

    over = (
        hours.where("edge is not null")
        .select("*", apart)
        .groupBy("edge", "msg_id_hash", "sent_to", "one_of_several")
        .agg(
            f.max("mtype").alias("mtype"),
            f.max("sub_id").alias("sub_id"),
            f.max("decided").alias("decided"),
            *(f.sum(name).alias(name) for name in ("gone", "came")),
            *map(all_of, ("endpoints", "others")),
            f.coalesce(f.max(f.when(f.col("decided"), f.col("messages"))), f.max("messages")).alias("messages"),
        )
        .where(KNOWN)
    )
    joined = over.select(
        f.col("edge").alias("began"), "mtype", "sub_id", f.expr(SET).alias("endpoints"), f.expr(WHOLE).alias("whole"),
        "messages",
    )  # fmt: skip
    return hours.where("edge is null").select(*joined.columns).unionByName(joined)
