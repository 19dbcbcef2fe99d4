"""A plan from the observed load: which endpoint should own which managed entity, as a route table and a MEID map.

Spark aggregates the load, however large the log is, and puts a row for each entity, message type and endpoint in order.
A plan reads these rows several times, one entity after the other, and keeps none: it needs memory for the endpoints,
the different loads, and the text of the plan. The assignment is made in one place, so it is the same each time.
"""

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from pipeline.balance import Alike, balance
from pipeline.errors import PipelineError

_ENDPOINT: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:,;|#\[\]\x00-\x1f\x7f]+):([0-9]{1,5})")
_ENTITY: Final = re.compile(r"(?!.*\\x[0-9a-f]{2})[^\s|#]+")  # the log has octets that are no UTF-8 as \xNN
LONGEST_ENDPOINT: Final = 260  # octets, of which readers take no more
LONGEST_ENTITY: Final = 31
MOST_GROUPS: Final = 64  # of an entry, of which readers take no more
MOST_MEMBERS: Final = 32  # of a group
PER_RECORD: Final = 100  # managed entities in a record; readers take 127

Row = Mapping[str, Any]
Rows = Callable[[], Iterable[Row]]  # of `entity_loads`, in order, from the first one each time
Key = tuple[int, int]  # message type and subscription
NAMED: Final = 20  # entities that do not fit into a table


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user wants to change; a load counts as even up to the share ``slack`` above the mean."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    slack: float = 0.1


@dataclass(slots=True)
class Plan:
    """Where each message type goes, and who owns which entity; ``odd`` says what could not be planned, and why.

    ``before`` and ``after`` are the messages of each endpoint's entities. ``owners`` are the records of the MEID map.
    """

    entities: int = 0
    moves: int = 0
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    entries: dict[Key, str] = field(default_factory=dict)  # groups by message type and subscription
    owners: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)


def is_endpoint(name: str) -> bool:
    """Return whether a table can name a receiver."""
    found = _ENDPOINT.fullmatch(name)
    return found is not None and 0 < int(found[2]) < 1 << 16 and len(name.encode()) <= LONGEST_ENDPOINT


def _is_entity(name: str) -> bool:
    """Return whether a map can name a managed entity."""
    return _ENTITY.fullmatch(name) is not None and len(name.encode()) <= LONGEST_ENTITY


def shown(name: str) -> str:
    """Return a name, which clients chose, as a terminal may get it."""
    return name if name.isprintable() else repr(name)


def _some(names: list[str]) -> str:
    return ", ".join(map(shown, names[:NAMED])) + (", …" if len(names) > NAMED else "")


def make_plan(rows: Rows, sets: Iterable[Row], wishes: Wishes) -> Plan:
    """Plan from rows of `entity_loads` and `endpoints`. Raises ``PipelineError`` if there are none."""
    for one in wishes.add:
        if not is_endpoint(one):
            raise PipelineError(f"--add {one!r} is no endpoint, so no table can name it: give HOST:PORT")
    plan = Plan()
    seen: dict[Key, set[frozenset[str]]] = defaultdict(set)
    messages: Counter[tuple[Key, bool]] = Counter()
    for row in sets:
        seen[_key(row)].add(frozenset(row["endpoints"]))
        messages[_key(row), row["whole"]] += row["messages"]
    if not seen:
        raise PipelineError("nothing to plan: no message of a route table in the log went to an endpoint")
    reported, routed = _types(rows, plan.odd)
    endpoints = {one for sets_ in seen.values() for one in frozenset.union(*sets_)}
    wrong = sorted(one for one in endpoints if not is_endpoint(one))
    if wrong == sorted(endpoints) and wrong and not wishes.add:
        some = _some(wrong)
        raise PipelineError(
            "nothing to plan: no receiver of a route table's messages is called host:port, as RMR applications are, so "
            f"no table can name one ({some}); --add names an endpoint"
        )
    plan.odd += [f"{shown(one)} is not host:port, so no table can name it" for one in wrong]
    gone = set(wishes.remove) | set(wrong)
    shared = _assign(plan, rows, routed, wishes.add, gone, wishes.slack)
    strange = set(wishes.remove) - endpoints - plan.before.keys()
    plan.odd += [f"--remove {shown(one)}: no endpoint is called so in these results" for one in sorted(strange)]
    for key, sets_ in sorted(seen.items()):
        if unknown := messages[key, False]:
            plan.odd.append(
                f"message type {key[0]}, subscription {key[1]}: of {unknown:,} of "
                f"{unknown + messages[key, True]:,} messages the log does not show everybody who got a copy: "
                "endpoints may be missing from its groups, or in the wrong one; look at them before you push the plan"
            )
        inferred = key in routed and key not in shared and len(frozenset.union(*sets_)) > 1
        if reported.get(key, inferred):
            plan.entries[key] = "%meid"
            continue
        groups = [left for group in groups_of(sets_) if (left := sorted(group - gone))]
        which = f"message type {key[0]}, subscription {key[1]}"
        if not groups:
            plan.odd.append(f"{which}: no endpoint is left")
        elif len(groups) > MOST_GROUPS or max(map(len, groups)) > MOST_MEMBERS:
            plan.odd.append(
                f"{which}: {len(groups)} groups of up to {max(map(len, groups))} endpoints do not fit into a table, "
                f"which takes {MOST_GROUPS} of {MOST_MEMBERS}: it is left out"
            )
        else:
            plan.entries[key] = ";".join(",".join(group) for group in groups)
    return plan


def _entities(rows: Rows) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each entity that fits into a table. Raises ``PipelineError`` if they are in no order."""
    former = ""
    for name, group in groupby(rows(), key=itemgetter("meid")):
        if name < former:
            raise PipelineError(
                "the rows of the table entities are in no order, as earlier versions of routerd wrote them: "
                "`routerd pipeline run` makes them anew"
            )
        former = name
        if _is_entity(name):
            yield name, list(group)


def _types(rows: Rows, odd: list[str]) -> tuple[dict[Key, bool], set[Key]]:
    """Return whether each message type is routed by managed entity, as far as the log says, and those that are.

    A type is routed by entity if the log says so, or says nothing and each entity of the type has one endpoint.
    Messages of other types only carry the name.
    """
    reported: dict[Key, bool] = {}
    several: dict[Key, bool] = {}  # whether an entity of the type has several endpoints
    strange: dict[str, None] = {}
    number = 0
    for row in rows():
        if isinstance(by_meid := row.get("by_meid"), bool):
            reported[_key(row)] = reported.get(_key(row), False) or by_meid
        if not _is_entity(row["meid"]) and row["meid"] not in strange:
            number += 1
            if len(strange) < NAMED:
                strange[row["meid"]] = None
    for _, of_entity in _entities(rows):
        for key, number_of in Counter(map(_key, of_entity)).items():
            several[key] = several.get(key, False) or number_of > 1
    odd += [f"managed entity {name!r} does not fit into a table" for name in strange]
    if number > NAMED:
        odd.append(f"nor do the managed entities of {number - NAMED} more rows")
    return reported, {key for key, more in several.items() if reported.get(key, not more)}


def _owner(rows: list[Row], routed: set[Key]) -> tuple[str, int, set[Key]] | None:
    """Return an entity's owner, its messages, and its message types if several endpoints got it; None without owner.

    The receiver of the last message is the owner: a long log may show earlier owners.
    """
    types = {_key(row) for row in rows} & routed
    owned = sorted({str(row["endpoint"]) for row in rows if _key(row) in types})  # the name may be unknown
    if not owned:
        return None
    got: dict[str, int] = defaultdict(int)
    heard: dict[str, float] = {}
    for row in rows:
        endpoint = str(row["endpoint"])
        got[endpoint] += row["messages"]
        if isinstance(last := row.get("last"), datetime):
            heard[endpoint] = max(last.timestamp(), heard.get(endpoint, -math.inf))
    owner = max(owned, key=lambda one: (heard.get(one, -math.inf), got[one]))
    return owner, sum(got.values()), types if len(owned) > 1 else set()


def _assign(plan: Plan, rows: Rows, routed: set[Key], add: Iterable[str], gone: set[str], slack: float) -> set[Key]:
    """Fill in who owns which entity; return message types of which several endpoints got an entity."""
    alike: Counter[Alike] = Counter()
    shared: set[Key] = set()
    for _, of_entity in _entities(rows):
        if found := _owner(of_entity, routed):
            alike[found[:2]] += 1
            shared |= found[2]
    if not alike:
        return shared
    owning = {one for one in (*add, *(owner for owner, _ in alike)) if is_endpoint(one)} - gone
    if not owning:
        raise _unowned({owner for owner, _ in alike})
    moves = {
        one: [target for target, number in targets for _ in range(number)][::-1]
        for one, targets in balance(alike, owning, slack).items()
    }
    before: dict[str, int] = defaultdict(int)
    after: dict[str, int] = defaultdict(int)
    names: dict[str, list[str]] = defaultdict(list)  # of the last record of each owner
    records: dict[str, list[str]] = defaultdict(list)
    for name, of_entity in _entities(rows):
        if (found := _owner(of_entity, routed)) is None:
            continue
        owner, load, _ = found
        waiting = moves.get((owner, load))
        new = waiting.pop() if waiting else owner
        plan.entities += 1
        plan.moves += new != owner
        before[owner] += load
        after[new] += load
        names[new].append(name)
        if len(names[new]) == PER_RECORD:
            records[new].append(_record(new, names.pop(new)))
    for owner, some in names.items():
        records[owner].append(_record(owner, some))
    plan.before, plan.after = dict(sorted(before.items())), dict(sorted(after.items()))
    plan.owners = [record for owner in sorted(records) for record in records[owner]]
    return shared


def _unowned(owners: set[str]) -> PipelineError:
    """Return the error that none of the present owners of managed entities can own them in a plan."""
    strange = sorted(one for one in owners if not is_endpoint(one))
    if not strange:
        return PipelineError("no endpoint is left to own managed entities: --add one, or --remove fewer")
    some = _some(strange)
    rest = "" if len(strange) == len(owners) else ", and the others are removed"
    return PipelineError(
        f"no endpoint can own managed entities: no table can name receivers that are not called host:port ({some})"
        f"{rest}; --add names an endpoint"
    )


def _record(owner: str, names: list[str]) -> str:
    return f"mme_ar|{owner}|{' '.join(names)}"


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
    owners = plan.owners
    name = "plan-" + _md5([*entries, *owners])[:12]
    lines = [f"newrt|start|{name}", *entries, f"newrt|end|{len(entries)}"]
    if owners:
        lines += [f"meid_map|start|{name}", *owners, f"meid_map|end|{len(owners)}|{_md5(owners)}"]
    return "".join(f"{line}\n" for line in lines)


def _md5(lines: list[str]) -> str:
    """Return the MD5 that route tables have, of lines that each end in a newline. Nothing secret is hashed."""
    return hashlib.md5("".join(f"{line}\n" for line in lines).encode(), usedforsecurity=False).hexdigest()


def _key(row: Row) -> Key:
    return row["mtype"], row["sub_id"]
