"""The tables of results, column by column: `routerd.results.v4`. Writer, readers and documentation share them.

A run writes exactly these columns in this order, and a reader refuses a table with other names or types. Every change
of names, types or meanings raises the version.
"""

import re
from typing import Final, NamedTuple

from shm.contract.flow_log.schema import OUTCOMES

VERSION: Final = "routerd.results.v4"
SPARK: Final = {  # by the types that the declarations use
    "string": "string",
    "bool": "boolean",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "double": "double",
    "timestamp": "timestamp",
    "strings": "array<string>",
}


class Column(NamedTuple):
    """A column; ``type`` is one of `SPARK`, ``unit`` may be empty."""

    name: str
    type: str
    unit: str
    meaning: str


class Table(NamedTuple):
    """A table; ``row`` says what it has a row for."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def types(self) -> dict[str, str]:
        """Spark's type of each column, in order."""
        return {column.name: SPARK[column.type] for column in self.columns}


# Table and what a row is; then name, type, unit if there is one, and meaning of each column.
_TABLES: Final = (
    """\
= flows: incoming and outgoing connection, path, source route, address or message type, managed entity, and outcome
router_id string: router that wrote the records
boot_id string: life of the router's core
ingress_conn_id int64: connection the messages came on; 0: unknown
ingress_kind string: kind of that connection, as in the log
egress_conn_id int64: connection they went to; null where they went to none
egress_kind string: kind of that connection; null where they went to none
peer_container string: container-id of the receiver, or of the sender of messages that went to none
egress_user string: user as whom the receiver logged in; null: nobody did, or it is not recorded
egress_host string: IP address of the receiver; null: unknown, or not recorded
ingress_container string: container-id of the connection the messages came on
ingress_user string: user as whom that connection logged in; null: nobody did, or it is not recorded
ingress_host string: IP address of that connection's peer; null: unknown, or not recorded
onward_route string: addresses that their source route still visits; null: none
return_route string: addresses that a reply along their return route visits; null: none
route_state string: `complete`, `partial` or `none`, of the return route; null: none, or they do not say
path string: routers that they passed, this one last; null where unknown
address string: address they were sent to; null: they named none
mtype int32: message type of a route table; -1: none
sub_id int32: subscription id of a route table; -1: none
meid string: managed entity id; null: none
outcome string: outcome, as in the log
messages int64: messages, scaled by the sampling
bytes int64 [bytes]: size of these messages
sent int64: messages of a client among them, each once for all of its copies
sent_bytes int64 [bytes]: size of these
passed int64: messages that were given to the receiver's connection as a whole: `latency_ns` is known
passed_bytes int64 [bytes]: size of these
first timestamp [UTC]: when the first one came
last timestamp [UTC]: when the last one came
heaviest int64: most messages that one record stands for
nobody bool: whether one found no receiver
by_meid bool: whether a route table chose the receiver by the managed entity; null where the log does not say
= traffic: minute, router where messages came in, router, kind of the connection they went to, address, message type
minute timestamp [UTC]: when the minute began, by the clock of `router_id`
origin string: router at which the messages entered the network, for those of an edge router its interior router;
  `router_id` where their path is not known
router_id string: router that forwarded them
egress_kind string: `inter_router` or `edge`: they went on to another router. Otherwise they left the network here;
  null: they went nowhere
address string: address they were sent to; null: they named none
mtype int32: message type of a route table; -1: none
records int64: records in the log
messages int64: messages, scaled by the sampling
bytes int64 [bytes]: size of these messages
"""
    + "".join(f"{outcome} int64: messages with the outcome `{outcome}`\n" for outcome in OUTCOMES)
    + """\
latency_n int64: messages whose latency is known
latency_p50 int64 [ns]: time in the router that half of these do not exceed
latency_p90 int64 [ns]: the same for 90 of 100
latency_p99 int64 [ns]: the same for 99 of 100
latency_p999 int64 [ns]: the same for 999 of 1000
latency_max int64 [ns]: longest time
= latencies: quarter of an hour, address, message type, bucket of latency
quarter timestamp [UTC]: when it began, by the clocks of the routers
address string: address; null: none
mtype int32: message type of a route table; -1: none
bucket int32: latencies from 2^(bucket/16) to 2^((bucket + 1)/16) ns; 0 also has those of 0 ns
messages int64: messages with these; each router that one passed counts
= quarters: quarter of an hour, router, address, message type, receiver
quarter timestamp [UTC]: when it began, by the router's clock
router_id string: router
address string: address; null: none
mtype int32: message type of a route table; -1: none
container string: container-id of the receiver, or of the sender of messages that went to none
outer bool: whether the messages left the network here, or went nowhere
n int64: records in the log
messages int64: messages, scaled by the sampling
failed int64: messages that were rejected, modified, undeliverable or aborted
error string: error type of the most records, the first by its octets where several have as many; null: none
latency_mean double [ns]: mean time in the router, by records
credit_mean double [ns]: mean wait for the receiver's credit, by records
answer_n int64: messages with a known time from the last byte to the outcome
answer_p50 int64 [ns]: time that half of these do not exceed
own_n int64: messages with a known latency
own_p50 int64 [ns]: latency without the wait for credit that half of these do not exceed; a wait that is not known
  counts as none
= load: minute, router and process
minute timestamp [UTC]: when the minute began, by the router's clock
router_id string: router
worker_id int16: worker at which messages came in; -1: the core
messages int64: messages, scaled by the sampling
bytes int64 [bytes]: size of these messages
load double [CPUs]: share of a CPU that they cost
= endpoints: message type, subscription and set of endpoints that got copies of the same message
mtype int32: message type
sub_id int32: subscription id
endpoints strings: the endpoints, in order
whole bool: whether the log shows everybody who got a copy. False: further copies went to other routers, in whose logs
  they were not found, as without message-id, with sampling, or where there is no log, or more were found than went
messages int64: messages of which each of these got a copy, scaled by the sampling
= links: pair of neighbouring routers, by both clocks as they are
router_id string: router that sent
onward string: router that received
messages int64: messages that `router_id` gave to the other one as a whole, each copy of one, with or without a known
  path, scaled by the sampling
bytes int64 [bytes]: size of these messages
least_ns int64 [ns]: shortest time of a message's first byte from the one to the other; null where no message is in
  both logs
transit_n int64: messages whose time is known, each once for all of its copies, scaled by the sampling of `router_id`
transit_p50 int64 [ns]: time that half of these do not exceed
transit_p99 int64 [ns]: the same for 99 of 100
= hops: pair of neighbouring routers, with the clocks set right
router_id string: router that sent
onward string: router that received
messages int64: messages that `router_id` gave to the other one as a whole, each copy of one, with or without a known
  path, scaled by the sampling
bytes int64 [bytes]: size of these messages
clock_ns int64 [ns]: how far the clock of `onward` is ahead; null where nothing came back, and times are as they are
transit_n int64: messages whose time is known, each once for all of its copies, scaled by the sampling of `router_id`
transit_p50 int64 [ns]: time between the two that half of these do not exceed
transit_p99 int64 [ns]: the same for 99 of 100
= journeys: path of two routers or more
path string: routers, in order: `R1>R2>R3`
clock_ns int64 [ns]: how far the last router's clock is ahead of the first one's; null where a link is without
took_n int64: messages that were followed from the first router to the last, scaled by the sampling of the last
took_p50 int64 [ns]: time from entering to leaving the network that half of these do not exceed
took_p90 int64 [ns]: the same for 90 of 100
took_p99 int64 [ns]: the same for 99 of 100
= taken: path that messages took, and source route
origin string: first router
target string: last router
path string: all routers, in order
onward_route string: addresses that the source route still visits at the last router; null: none
return_route string: addresses that a reply along the return route visits; null: none
route_state string: `complete`, `partial` or `none`, of the return route; null: none, or they do not say
messages int64: messages that left the network at the last router, or went nowhere there, scaled by the sampling
bytes int64 [bytes]: size of these messages
first timestamp [UTC]: when the first one came to the last router
last timestamp [UTC]: when the last one came to the last router
address string: one of the addresses
= ways: path that messages took, and source route, with what it is
origin string: first router
target string: last router
path string: all routers, in order
onward_route string: addresses that the source route still visits at the last router; null: none
return_route string: addresses that a reply along the return route visits; null: none
route_state string: `complete`, `partial` or `none`, of the return route; null: none, or they do not say
routers int32: how many these are
messages int64: messages that left the network at the last router, or went nowhere there, scaled by the sampling
bytes int64 [bytes]: size of these messages
first timestamp [UTC]: when the first one came to the last router
last timestamp [UTC]: when the last one came to the last router
address string: one of the addresses
usual bool: whether most messages between these two routers took it; false with a source route, as all that follow
detour bool: whether it is longer than the usual one; false with a source route, and for a loop
loop bool: whether a router is twice on it; false with a source route
asymmetric bool: whether it is the usual one, and the usual way back is not its reverse
way_back string: usual path of the other direction; null: none, or a source route
= talkers: client as a sender, or as a receiver, at a router
role string: `sender` or `receiver`
router_id string: router of the client
container string: container-id of the client; null where it is not known
user string: user as whom it logged in; null: nobody did, or it is not recorded
host string: IP address of the client; null: unknown, or not recorded
addresses int64: addresses and message types of its messages
address string: the one with the most messages; null: none
mtype int32: its message type of a route table; -1: none
messages int64: messages, scaled by the sampling; one that a sender sent counts once for all of its copies
bytes int64 [bytes]: size of these messages
"""
    + "".join(
        f"{outcome} int64: messages with the outcome `{outcome}`, of a sender's the first copy that was over\n"
        for outcome in OUTCOMES
    )
    + """\
place int32: 1 for the most messages of all senders, or of all receivers; no two have the same
= conversations: sender, address, and receiver
origin string: router at which the messages entered the network, for those of an edge router its interior router;
  `router_id` where their path is not known
sender_container string: container-id of the sender; null where it is not known, as behind an edge router or at another
  router's link route, or where several could be
sender_user string: user as whom it logged in; null as the container, or nobody did, or it is not recorded
sender_host string: IP address of the sender; null as the container, or it is not recorded
address string: address; null: none
mtype int32: message type of a route table; -1: none
router_id string: router of the receiver
receiver_container string: container-id of the receiver; null where it is not known
receiver_user string: user as whom it logged in; null: nobody did, or it is not recorded
receiver_host string: IP address of the receiver; null: unknown, or not recorded
messages int64: messages for the receiver, whatever became of them, scaled by the sampling
bytes int64 [bytes]: size of these messages
first timestamp [UTC]: when the first one came; of several senders at another router, that of all of them
last timestamp [UTC]: when the last one came, of several senders the same
= unheard: address without consumers
address string: address; null: none
mtype int32: message type of a route table; -1: none
messages int64: messages, scaled by the sampling
first timestamp [UTC]: when the first one came
last timestamp [UTC]: when the last one came
routers strings: routers at which they found no receiver, in order
= entities: managed entity, message type and endpoint
meid string: managed entity id
mtype int32: message type
sub_id int32: subscription id
endpoint string: container-id of the receiver; null where it is not known
messages int64: messages, scaled by the sampling
by_meid bool: whether a route table chose the receiver by the managed entity; null where the log does not say
last timestamp [UTC]: when the last one came
= findings: anomaly
kind string: what is wrong, by the table of kinds
first timestamp [UTC]: when it began
last timestamp [UTC]: when it ended
router_id string: router
address string: address, or one of the addresses; null: none
mtype int32: message type of a route table; -1: none
container string: receiver, path or error type; null: none
n int64: records that show it; messages for paths and for addresses without consumers
value double: the worst value: ns, a share, or routers on the path
usual double: the usual value, in the same unit; null: none
evidence string: the same in words
= processes: router and process
router_id string: router
worker_id int16: worker; -1: the core
messages int64: messages, scaled by the sampling
bytes int64 [bytes]: size of these messages
load_mean double [CPUs]: mean load of the minutes with messages
load_peak double [CPUs]: load that 99 of 100 minutes do not exceed
busiest timestamp [UTC]: the minute with the most load
growth_per_day double [CPUs a day]: growth of the daily peak; null for a log of one day
full_in_days double [days]: until the last day's peak has grown to 70 % of a CPU; null where peaks do not grow
= advice: router
router_id string: router
workers int64: workers that had messages
worker_peak double [CPUs]: sum of the workers' peaks
core_peak double [CPUs]: the core's peak
next_worker_in_days double [days]: until the first worker is full; null where no peak grows
workers_needed int32: recommended number of workers
cpus int32: recommended number of CPUs
pinning string: what to pin, in words
"""
)

_COLUMN: Final = re.compile(r"^(\w+) (\w+)(?: \[(.+?)\])?: (.+(?:\n .+)*)", re.MULTILINE)
TABLES: Final = {
    name: Table(
        name,
        row,
        tuple(
            Column(column, kind, unit, re.sub(r"\s+", " ", meaning))
            for column, kind, unit, meaning in _COLUMN.findall(columns)
        ),
    )
    for name, row, columns in re.findall(r"^= (\w+): (.+)\n((?:[^=].*\n)+)", _TABLES, re.MULTILINE)
}


def differs(name: str, types: dict[str, str]) -> str:
    """Return how the columns of a table, Spark's types by name in order, differ from its declaration; "" if not."""
    wanted = TABLES[name].types
    for column in [*wanted, *types]:
        given, declared = types.get(column), wanted.get(column)
        if given != declared:
            return f"{column} is {given or 'missing'}" + (
                f" instead of {declared}" if declared else ", which is not declared"
            )
    return "" if list(types) == list(wanted) else "its columns are in another order"
