"""Which endpoints got copies of the same message, and the load of each managed entity: what a plan is made from."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pipeline.flow_log.records import require
from pipeline.tables.measures import gathered, hour

NEEDS: Final = (
    "ts", "router_id", "boot_id", "egress_kind", "egress_conn_id", "peer_container", "mtype", "sub_id",
    "msg_id_hash", "message_number",
)  # fmt: skip
# Messages of route tables that left the network for an endpoint.
_LEFT: Final = "mtype >= 0 and egress_conn_id is not null and (egress_kind is null or egress_kind <> 'inter_router')"
ORDER: Final = ("meid", "mtype", "sub_id", "endpoint")


def entity_loads(flows: DataFrame) -> DataFrame:
    """Return one row for each managed entity, message type and endpoint: messages that left the network for it.

    The rows are in order, in one file when they are written, so that a plan sees one entity after the other.
    ``by_meid`` is whether a route table chose the entity's owner, null where the log does not say. ``last`` is when
    the last of the messages came.
    """
    return (
        flows.where(_LEFT)
        .where("meid is not null")
        .groupBy("meid", "mtype", "sub_id", f.col("peer_container").alias("endpoint"))
        .agg(f.sum("messages").alias("messages"), f.max("by_meid").alias("by_meid"), f.max("last").alias("last"))
        .repartition(1)
        .sortWithinPartitions(*ORDER)
    )


def endpoint_sets(log: DataFrame) -> DataFrame:
    """Return one row for each hour, message type and set of endpoints that received copies of the same message.

    Endpoints that never received the same message are members of one group; see `groups_of`. All copies came to the
    router at one time, so they are of one hour; so are those in a log without message numbers, by what counts here.
    """
    rows = require(log, NEEDS, "the plan").where(_LEFT)
    typed = gathered(rows.select("*", hour(), f.col("peer_container").alias("endpoint")))
    in_router = f.when(f.col("message_number").isNotNull(), f.struct("router_id", "boot_id", "message_number"))
    by_id = f.coalesce("msg_id_hash", f.monotonically_increasing_id())  # in a log without message numbers
    copies = typed.groupBy(
        "began", "mtype", "sub_id", in_router.alias("message"), f.when(in_router.isNull(), by_id).alias("id")
    ).agg(f.sort_array(f.collect_set("endpoint")).alias("endpoints"))
    return copies.groupBy("began", "mtype", "sub_id", "endpoints").agg(f.count("*").alias("messages"))


def endpoints(hours: DataFrame) -> DataFrame:
    """Return the sets of endpoints of hours, added up over all time."""
    return hours.groupBy("mtype", "sub_id", "endpoints").agg(f.sum("messages").alias("messages"))
