"""Which entry of a table applies to a message, and why: the forwarder's rules in plain Python.

The key is tried first, then the message type without a subscription. The last applicable entry wins. The
sender's own endpoint is left out of the groups. An entry without a destination is not replaced by another
one.
"""

from collections.abc import Mapping
from typing import NamedTuple

from core.rmr.tables.fields import RESERVED
from core.rmr.tables.table import ANY_SUBSCRIPTION, Entry, Table


class Question(NamedTuple):
    """A message. ``sender`` is host:port, or empty if unknown."""

    message_type: int
    subscription: int = ANY_SUBSCRIPTION
    meid: str = ""
    sender: str = ""


class Explanation(NamedTuple):
    """The destinations of a message: one copy to a member of each group.

    ``steps`` tell how they were found.
    """

    entry: Entry | None
    groups: tuple[tuple[str, ...], ...]
    steps: tuple[str, ...]


def winner(table: Table, key: tuple[int, int], sender: str) -> Entry | None:
    """Return the last entry of a key that applies to a sender, or None without one or if it was deleted."""
    found = None
    for entry in table.of_key(key):
        if not entry.senders or sender in entry.senders:
            found = entry
    return found if found is None or found.groups.by_meid or found.groups.members else None


def fate(table: Table, owners: Mapping[str, str], asked: Question) -> Explanation:
    """Explain a message. One of a reserved type is rejected without a lookup."""
    if asked.message_type in RESERVED:
        why = f"message type {asked.message_type} is reserved for RMR itself: the message is rejected"
        return Explanation(None, (), (why,))
    return explain(table, owners, asked)


def explain(table: Table, owners: Mapping[str, str], asked: Question) -> Explanation:
    """Explain the path of a message through a table and the MEID map ``owners``."""
    steps: list[str] = []
    entry = None
    for subscription in dict.fromkeys((asked.subscription, ANY_SUBSCRIPTION)):
        entry = winner(table, (asked.message_type, subscription), asked.sender)
        name = f"message type {asked.message_type}, subscription {subscription}"
        if entry is not None:
            steps.append(f"{name}: line {entry.line}, {entry}")
            break
        steps.append(f"{name}: no entry{_others(table, asked, subscription)}")
    if entry is None:
        return Explanation(None, (), (*steps, "no endpoint: the message is released"))
    groups = _members(entry, owners, asked, steps)
    return Explanation(entry, groups, tuple(steps))


def _others(table: Table, asked: Question, subscription: int) -> str:
    """Return a text about entries of the key for other senders."""
    senders = {one for entry in table.of_key((asked.message_type, subscription)) for one in entry.senders}
    return f" for this sender, only for {', '.join(sorted(senders))}" if senders else ""


def _members(entry: Entry, owners: Mapping[str, str], asked: Question, steps: list[str]) -> tuple[tuple[str, ...], ...]:
    if entry.groups.by_meid:
        owner = owners.get(asked.meid)
        if owner is None:
            who = f"MEID {asked.meid!r} has no owner" if asked.meid else "the message has no MEID"
            steps.append(f"{who}: no endpoint, the message is released")
            return ()
        steps.append(f"MEID {asked.meid!r} is owned by {owner}")
        return ((owner,),)
    groups = []
    for number, group in enumerate(entry.groups.members, 1):
        left = tuple(one for one in group if one != asked.sender)
        note = "" if len(left) == len(group) else f" ({asked.sender} is the sender itself)"
        if left:
            groups.append(left)
            turn = f"{left[0]}" if len(left) == 1 else f"{', '.join(left)} in turn"
            steps.append(f"group {number}: one copy to {turn}{note}")
        else:
            steps.append(f"group {number}: nobody{note}")
    if not groups:
        steps.append("no endpoint: the message is released")
    return tuple(groups)
