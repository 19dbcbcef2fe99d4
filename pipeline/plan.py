"""A plan from the observed load: which endpoint should own which managed entity, as a route table and a MEID map.

Spark aggregates the load, however large the log is. What is left is a row for each entity, and one place makes the
assignment, so that it is the same each time.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pipeline.balance import balance
from pipeline.errors import PipelineError
from pipeline.flow_log.records import require
from pipeline.tables.measures import hour

NEEDS: Final = (
    "ts", "router_id", "boot_id", "egress_kind", "egress_conn_id", "peer_container", "mtype", "sub_id",
    "msg_id_hash", "message_number",
)  # fmt: skip
# Messages of route tables that left the network for an endpoint.
_LEFT: Final = "mtype >= 0 and egress_conn_id is not null and (egress_kind is null or egress_kind <> 'inter_router')"
ENDPOINT: Final = r"(\[[0-9a-fA-F:.]+\]|[^\s:,;|#\[\]]+):\d{1,5}"
ENTITY: Final = r"[^\s|#]{1,31}"
PER_RECORD: Final = 100  # managed entities in a record; readers take 127

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user wants to change; a load counts as even up to the share ``slack`` above the mean."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    slack: float = 0.1


@dataclass(slots=True)
class Plan:
    """Who owns which entity, and where each message type goes; ``odd`` says what could not be planned, and why."""

    owners: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    loads: dict[str, int] = field(default_factory=dict)
    entries: dict[tuple[int, int], str] = field(default_factory=dict)  # groups by message type and subscription
    odd: list[str] = field(default_factory=list)

    @property
    def moves(self) -> dict[str, tuple[str, str]]:
        """The former and the new owner of each entity that moves."""
        return {
            name: (self.before[name], owner)
            for name, owner in sorted(self.owners.items())
            if self.before[name] != owner
        }

    def endpoint_loads(self, owners: Mapping[str, str]) -> dict[str, int]:
        """Return the number of messages for each endpoint if these were the owners."""
        totals: dict[str, int] = defaultdict(int)
        for name, owner in owners.items():
            totals[owner] += self.loads[name]
        return dict(sorted(totals.items()))


def entity_loads(flows: DataFrame) -> DataFrame:
    """Return one row for each managed entity, message type and endpoint: messages that left the network for it.

    ``by_meid`` is whether a route table chose the entity's owner, null where the log does not say. ``last`` is when
    the last of the messages came.
    """
    return (
        flows.where(_LEFT)
        .where("meid is not null")
        .groupBy("meid", "mtype", "sub_id", f.col("peer_container").alias("endpoint"))
        .agg(f.sum("messages").alias("messages"), f.max("by_meid").alias("by_meid"), f.max("last").alias("last"))
    )


def endpoint_sets(log: DataFrame) -> DataFrame:
    """Return one row for each hour, message type and set of endpoints that received copies of the same message.

    Endpoints that never received the same message are members of one group; see `groups_of`. All copies came to the
    router at one time, so they are of one hour; so are those in a log without message numbers, by what counts here.
    """
    rows = require(log, NEEDS, "the plan").where(_LEFT)
    typed = rows.select("*", hour(), f.col("peer_container").alias("endpoint"))
    in_router = f.when(f.col("message_number").isNotNull(), f.struct("router_id", "boot_id", "message_number"))
    by_id = f.coalesce("msg_id_hash", f.monotonically_increasing_id())  # in a log without message numbers
    copies = typed.groupBy(
        "began", "mtype", "sub_id", in_router.alias("message"), f.when(in_router.isNull(), by_id).alias("id")
    ).agg(f.sort_array(f.collect_set("endpoint")).alias("endpoints"))
    return copies.groupBy("began", "mtype", "sub_id", "endpoints").agg(f.count("*").alias("messages"))


def endpoints(hours: DataFrame) -> DataFrame:
    """Return the sets of endpoints of hours, added up over all time."""
    return hours.groupBy("mtype", "sub_id", "endpoints").agg(f.sum("messages").alias("messages"))


def make_plan(loads: Iterable[Row], sets: Iterable[Row], wishes: Wishes) -> Plan:
    """Plan from rows of `entity_loads` and `endpoint_sets`. Raises ``PipelineError`` if there are none."""
    plan = Plan()
    seen: dict[tuple[int, int], set[frozenset[str]]] = defaultdict(set)
    for row in sets:
        seen[_key(row)].add(frozenset(row["endpoints"]))
    loads = list(loads)
    reported = _reported(loads)
    by_owner, types_of = _owners(plan, loads, reported)
    if not seen:
        raise PipelineError("nothing to plan: no message of a route table in the log went to an endpoint")
    endpoints = {one for sets_ in seen.values() for one in frozenset.union(*sets_)}
    wrong = sorted(one for one in endpoints if not re.fullmatch(ENDPOINT, one))
    plan.odd += [f"{one} is not host:port, so no table can name it" for one in wrong]
    gone = set(wishes.remove) | set(wrong)
    owning = (set(plan.before.values()) | set(wishes.add)) - gone
    if plan.before:
        if not owning:
            raise PipelineError("no endpoint is left to own managed entities: add one, or remove fewer")
        plan.owners = balance(plan.loads, plan.before, owning, wishes.slack)
    for key, sets_ in sorted(seen.items()):
        inferred = (
            key in types_of
            and all(by_owner[name] == {plan.before[name]} for name in types_of[key])
            and len(frozenset.union(*sets_)) > 1
        )
        if reported.get(key, inferred):
            plan.entries[key] = "%meid"
            continue
        groups = [",".join(sorted(group - gone)) for group in groups_of(sets_)]
        text = ";".join(group for group in groups if group)
        if text:
            plan.entries[key] = text
        else:
            plan.odd.append(f"message type {key[0]}, subscription {key[1]}: no endpoint is left")
    return plan


def _reported(rows: Iterable[Row]) -> dict[tuple[int, int], bool]:
    """Return whether each message type is routed by managed entity, as far as the log says."""
    reported: dict[tuple[int, int], bool] = {}
    for row in rows:
        if isinstance(by_meid := row.get("by_meid"), bool):
            reported[_key(row)] = reported.get(_key(row), False) or by_meid
    return reported


def _owners(
    plan: Plan, rows: Iterable[Row], reported: Mapping[tuple[int, int], bool]
) -> tuple[dict[str, set[str]], dict[tuple[int, int], set[str]]]:
    """Fill in the observed loads and owners; return endpoints by entity, and entities by message type."""
    got: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    heard: dict[tuple[str, str], datetime] = {}
    by_type: dict[tuple[int, int], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        name, endpoint = row["meid"], str(row["endpoint"])  # the name of an endpoint may be unknown
        if not re.fullmatch(ENTITY, name):
            plan.odd.append(f"managed entity {name!r} does not fit into a table")
            continue
        by_type[_key(row)][name].add(endpoint)
        got[name][endpoint] += row["messages"]
        if isinstance(last := row.get("last"), datetime):
            heard[name, endpoint] = max(last, heard.get((name, endpoint), last))
    # A type is routed by entity if the log says so, or says nothing and each entity of the type has one endpoint.
    # Messages of other types only carry the name.
    types_of = {
        key: set(names)
        for key, names in by_type.items()
        if reported.get(key, all(len(one) == 1 for one in names.values()))
    }
    owned: dict[str, set[str]] = defaultdict(set)
    for key, names in types_of.items():
        for name in names:
            owned[name] |= by_type[key][name]
    for name in sorted(owned):
        # The receiver of the last message is the owner: a long log may show earlier owners.
        plan.before[name] = max(
            sorted(owned[name]), key=lambda one: (heard.get((name, one), datetime.min), got[name][one])
        )
        plan.loads[name] = sum(got[name].values())
    return owned, types_of


def groups_of(sets: Iterable[frozenset[str]]) -> list[set[str]]:
    """Return the groups behind sets of endpoints that received copies of one message; each group gets one copy.

    Two endpoints that ever received the same message are in different groups, two that never did are in the same one.
    """
    sets = list(sets)
    apart = {(one, other) for group in sets for one in group for other in group if one != other}
    left = sorted(frozenset.union(*sets)) if sets else []
    groups: list[set[str]] = []
    while left:
        group, waiting = {left[0]}, [left[0]]
        while waiting:
            one = waiting.pop()
            together = {other for other in left if other not in group and (one, other) not in apart}
            group |= together
            waiting += sorted(together)
        groups.append(group)
        left = [one for one in left if one not in group]
    return groups


def table_text(plan: Plan) -> str:
    """Return the route table and the MEID map with counts and MD5, as `routerd table check` reads them."""
    entries = [f"mse|{mtype}|{sub_id}|{groups}" for (mtype, sub_id), groups in sorted(plan.entries.items())]
    owned: dict[str, list[str]] = defaultdict(list)
    for name, owner in sorted(plan.owners.items()):
        owned[owner].append(name)
    owners = [
        f"mme_ar|{owner}|{' '.join(names[at : at + PER_RECORD])}"
        for owner, names in sorted(owned.items())
        for at in range(0, len(names), PER_RECORD)
    ]
    name = "plan-" + _md5([*entries, *owners])[:12]
    lines = [f"newrt|start|{name}", *entries, f"newrt|end|{len(entries)}"]
    if owners:
        lines += [f"meid_map|start|{name}", *owners, f"meid_map|end|{len(owners)}|{_md5(owners)}"]
    return "".join(f"{line}\n" for line in lines)


def _md5(lines: list[str]) -> str:
    """Return the MD5 that route tables have, of lines that each end in a newline. Nothing secret is hashed."""
    return hashlib.md5("".join(f"{line}\n" for line in lines).encode(), usedforsecurity=False).hexdigest()


def _key(row: Row) -> tuple[int, int]:
    return row["mtype"], row["sub_id"]
