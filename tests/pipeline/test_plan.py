"""The planner: few moves, even loads, and tables that the router's own parser takes strictly."""

import itertools
import random
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from core.rmr.tables.parser import Parser
from core.rmr.tables.table import MeidMap, Table
from pipeline import batch
from pipeline.balance import balance
from pipeline.errors import PipelineError
from pipeline.output.results import Results
from pipeline.plan import Plan, Wishes, groups_of, make_plan, table_text
from routerd.cli.table import table as table_command

LOADS = st.dictionaries(st.sampled_from([f"e{n}" for n in range(12)]), st.integers(0, 100), min_size=1)
OWNERS = st.fixed_dictionaries({f"e{n}": st.sampled_from(["a", "b", "c", "gone"]) for n in range(12)})


def assigned(loads: dict[str, int], owners: dict[str, str], endpoints: Iterable[str], slack: float) -> dict[str, str]:
    """The owner of each entity, of which those move first whose names come first."""
    moves = balance(Counter((owners[name], loads[name]) for name in loads), endpoints, slack)
    after = {}
    for name in sorted(loads):
        waiting = moves.get((owners[name], loads[name]), [])
        after[name], left = waiting.pop(0) if waiting else (owners[name], 1)
        if left > 1:
            waiting.insert(0, (after[name], left - 1))
    assert not any(moves.values())
    return after


def totals(loads: dict[str, int], owners: dict[str, str]) -> dict[str, int]:
    return {one: sum(loads[name] for name in loads if owners[name] == one) for one in "abc"}


def moves(loads: dict[str, int], before: dict[str, str], after: dict[str, str]) -> int:
    return sum(before[name] != after[name] for name in loads)


@settings(deadline=None)  # other tests may have the CPU
@given(LOADS, OWNERS, st.sampled_from([0.0, 0.1, 0.5]))
def test_balancing_makes_nothing_worse(loads: dict[str, int], owners: dict[str, str], slack: float) -> None:
    """Everything has an owner that is there; nobody gets too much who had not; what is even stays."""
    after = assigned(loads, owners, ["a", "b", "c"], slack)
    assert after == assigned(dict(reversed(loads.items())), owners, ["c", "b", "a"], slack)
    assert after.keys() == loads.keys()
    assert set(after.values()) <= {"a", "b", "c"}
    limit = sum(loads.values()) / 3 * (1 + slack)
    before, now = totals(loads, owners), totals(loads, after)
    orphans = [name for name in loads if owners[name] == "gone"]
    if not orphans:
        assert all(now[one] <= max(limit, before[one]) for one in "abc")
        if all(load <= limit for load in before.values()):
            assert moves(loads, owners, after) == 0


def test_few_entities_move() -> None:
    """At most half as many again as in the best assignment that is as even, all in all."""
    chance = random.Random(5)  # noqa: S311  nothing secret
    ours = best = 0
    for _ in range(30):
        loads = {f"e{n}": chance.randint(1, 50) for n in range(7)}
        before = {name: chance.choice("aab") for name in loads}
        after = assigned(loads, before, "abc", 0.25)
        reached = max(totals(loads, after).values())
        ours += moves(loads, before, after)
        best += min(
            moves(loads, before, owners)
            for chosen in itertools.product("abc", repeat=7)
            if max(totals(loads, owners := dict(zip(loads, chosen, strict=True))).values()) <= reached
        )
    assert best <= ours <= 1.5 * best


def test_groups_are_told_from_what_got_the_same_message() -> None:
    """One member of each group gets a copy."""
    sets = [frozenset(pair) for pair in itertools.product(("a", "b"), ("x", "y", "z"))]
    assert sorted(map(sorted, groups_of(sets))) == [["a", "b"], ["x", "y", "z"]]
    assert groups_of([frozenset("a"), frozenset("b")]) == [{"a", "b"}]


def owners_of(text: str) -> dict[str, str]:
    """Who owns which entity by the text of a plan."""
    records = [line.split("|") for line in text.splitlines() if line.startswith("mme_ar|")]
    return {name: owner for _, owner, names in records for name in names.split(" ")}


def test_a_plan_from_a_log_is_a_valid_table(results: Results) -> None:
    """Counts and MD5 are right, the loads are even, and the same log gives the same plan."""
    made, where = batch.plan(results.generation, Wishes())
    text = Path(where).read_text()
    assert text == table_text(batch.plan(results.generation, Wishes())[0])
    assert CliRunner().invoke(table_command, ["check", where]).exit_code == 0
    parser = Parser()
    table, owners = [*parser.feed(text), *parser.finish()]
    assert isinstance(table, Table)
    assert isinstance(owners, MeidMap)
    by_type = {entry.message_type: str(entry.groups) for entry in table.rows()}
    assert by_type[12000] == "%meid"
    assert sorted(by_type[12010].split(";")) == ["app0:4560,app1:4560", "app2:4560"]
    assert len(owners.owners) == made.entities
    mean = sum(made.after.values()) / len(made.after)
    loads = results.read("entities").where("mtype = 12000").groupBy("meid").sum("messages").collect()
    assert max(made.before.values()) > 1.5 * mean
    assert max(made.after.values()) <= max(1.1 * mean, *(load for _, load in loads))
    assert 0 < made.moves < made.entities / 2


def test_endpoints_come_and_go(results: Results) -> None:
    """One that is removed owns nothing and is in no group; a new one gets its share."""
    wishes = Wishes(add=("new:1",), remove=("owner1:38001", "app1:4560"))
    made, where = batch.plan(results.generation, wishes)
    owners = set(owners_of(Path(where).read_text()).values())
    assert "owner1:38001" not in owners
    assert "new:1" in owners
    assert all("app1" not in groups for groups in made.entries.values())


def planned(rows: list[dict[str, Any]], sets: list[dict[str, Any]], wishes: Wishes) -> Plan:
    """The plan from rows, which come as they are in the table."""
    ordered = sorted(rows, key=lambda one: (one["meid"], one["mtype"], one["sub_id"], one["endpoint"]))
    return make_plan(lambda: iter(ordered), sets, wishes)


def row(**values: Any) -> dict[str, Any]:
    return {"mtype": 1, "sub_id": -1, "messages": 1, "whole": True, **values}


def test_groups_that_the_log_does_not_show_are_named() -> None:
    """With the share of messages of which copies are unknown; whoever is known is planned."""
    sets = [row(endpoints=["a:1", "b:1"], messages=3), row(endpoints=["a:1"], messages=1200, whole=False)]
    made = planned([], [*sets, row(mtype=2, endpoints=["c:1"])], Wishes())
    assert made.entries == {(1, -1): "a:1;b:1", (2, -1): "c:1"}
    (odd,) = made.odd
    assert odd.startswith("message type 1, subscription -1: of 1,200 of 1,203 messages the log does not show ")
    unknown = planned([], [row(endpoints=[], whole=False), row(mtype=2, endpoints=["c:1"])], Wishes())
    assert unknown.entries == {(2, -1): "c:1"}
    assert [one.split(": ")[1][:6] for one in unknown.odd] == ["of 1 o", "no end"]


def test_what_no_table_can_say_is_said() -> None:
    """Containers that are no endpoints, names that are too long; nothing at all is an error."""
    made = planned(
        [row(meid="x" * 32, endpoint="a:1")], [row(endpoints=["a:1"]), row(mtype=2, endpoints=["laptop"])], Wishes()
    )
    assert [one.split(" ")[0] for one in made.odd] == ["managed", "laptop", "message"]
    assert made.entries == {(1, -1): "a:1"}
    unknown = Wishes(remove=("b:1", "c:1", "typo:1"))  # one owns an entity, one is in a group
    owned = [row(meid="x", endpoint="c:1"), row(meid="y", endpoint="a:1")]
    made = planned(owned, [row(endpoints=["a:1", "b:1"])], unknown)
    assert made.odd == ["--remove typo:1: no endpoint is called so in these results"]
    with pytest.raises(PipelineError, match="nothing to plan"):
        planned([], [], Wishes())
    with pytest.raises(PipelineError, match="no endpoint is left"):
        planned([row(meid="x", endpoint="a:1")], [row(endpoints=["a:1"])], Wishes(remove=("a:1",)))


def test_receivers_that_no_table_can_name_are_said() -> None:
    """Not that some should be added, or fewer removed."""
    with pytest.raises(PipelineError, match=r"no receiver of a route table's messages is called host:port.*\(laptop\)"):
        planned([row(meid="x", endpoint="laptop")], [row(endpoints=["laptop"])], Wishes())
    sets, rows = [row(endpoints=["a:1", "b:1", "laptop"])], [row(meid="x", endpoint="laptop")]
    with pytest.raises(PipelineError, match=r"are not called host:port \(laptop\); --add names an endpoint"):
        planned(rows, sets, Wishes())
    with pytest.raises(PipelineError, match=r"\(laptop\), and the others are removed; --add names an endpoint"):
        planned([*rows, row(meid="y", endpoint="a:1")], sets, Wishes(remove=("a:1",)))


def test_no_name_of_a_client_spoils_a_table(tmp_path: Path) -> None:
    """Whatever it calls itself, and where its name is not known any more; a terminal gets no control characters."""
    strange = ["a:0", "a:99999", "a:\u0661", "a\x07:1", f"{'a' * 259}:1", "\x1b[2J"]
    sets = [row(endpoints=["b:1", one]) for one in strange]
    rows = [row(meid=f"ran-{at}", endpoint=one) for at, one in enumerate([*strange, None, "b:1"])]
    made = planned([*rows, row(meid="é" * 16, endpoint="b:1"), row(meid="é" * 15, endpoint="b:1")], sets, Wishes())
    text = table_text(made)
    (tmp_path / "plan.rt").write_text(text)
    assert CliRunner().invoke(table_command, ["check", str(tmp_path / "plan.rt")]).exit_code == 0
    assert set(owners_of(text).values()) == {"b:1"}
    assert len(owners_of(text)) == len(rows) + 1
    assert len(made.odd) == len(strange) + 1
    assert "\x1b" not in "".join(made.odd)
    with pytest.raises(PipelineError, match=r"\('\\x1b\[2J', laptop\)"):
        planned([], [row(endpoints=["laptop", "\x1b[2J"])], Wishes())


@pytest.mark.parametrize(
    ("number", "together", "fits"), [(64, True, True), (65, True, False), (32, False, True), (33, False, False)]
)
def test_groups_that_no_table_takes_are_left_out(tmp_path: Path, number: int, together: bool, fits: bool) -> None:
    """RMR has a limit of groups, and one of members; a table beyond them would be refused as a whole."""
    many = [f"h{at}:1" for at in range(number)]
    sets = [row(endpoints=many)] if together else [row(endpoints=[one]) for one in many]
    made = planned([], [*sets, row(mtype=2, endpoints=["a:1"])], Wishes())
    assert (set(made.entries), len(made.odd)) == ({(1, -1), (2, -1)} if fits else {(2, -1)}, not fits)
    (tmp_path / "plan.rt").write_text(table_text(made))
    assert CliRunner().invoke(table_command, ["check", str(tmp_path / "plan.rt")]).exit_code == 0


def test_what_goes_by_entity_is_known_from_the_log() -> None:
    """Though one endpoint owns everything: so that a new one can get some; and a type whose copies all went
    to one endpoint is no table of entities because of that."""
    entities = [row(meid=f"ran-{n}", endpoint="a:1", messages=10, by_meid=True) for n in range(4)]
    carried = row(mtype=2, meid="ran-0", endpoint="b:1", by_meid=False)
    sets = [row(endpoints=["a:1"]), row(mtype=2, endpoints=["b:1"])]
    made = planned([*entities, carried], sets, Wishes(add=("new:1",)))
    assert made.entries == {(1, -1): "%meid", (2, -1): "b:1"}
    assert made.moves == 2
    assert planned([*entities, carried], sets, Wishes()).entries == made.entries


def test_the_owner_is_who_got_the_last_message() -> None:
    """Not who got the most: a log holds what was before a table was pushed, too."""
    hours = [datetime(2026, 1, 5, hour) for hour in (8, 9)]
    rows = [
        row(meid="ran-1", endpoint="a:1", messages=90, by_meid=True, last=hours[0]),
        row(meid="ran-1", endpoint="b:1", messages=10, by_meid=True, last=hours[1]),
        row(meid="ran-2", endpoint="a:1", messages=100, by_meid=True, last=hours[1]),
    ]
    made = planned(rows, [row(endpoints=["a:1"]), row(endpoints=["b:1"])], Wishes())
    assert owners_of(table_text(made)) == {"ran-1": "b:1", "ran-2": "a:1"}
    assert made.before == made.after == {"a:1": 100, "b:1": 100}
    assert made.moves == 0


@pytest.mark.parametrize("name", ["nohost", "h:0", "h:99999", ":5", "", "a|b:1", "h h:5", "#x:4", "a:1\nrte|1|b:2"])
def test_a_new_endpoint_that_no_table_can_name_is_refused(name: str) -> None:
    """Before a plan is written over the last one."""
    with pytest.raises(PipelineError, match="is no endpoint, so no table can name it: give HOST:PORT"):
        make_plan(lambda: iter([]), [row(endpoints=["a:1"])], Wishes(add=(name,)))


def test_rows_in_no_order_are_refused() -> None:
    """As results of an earlier version have them: an entity would have two owners."""
    rows = [row(meid=name, endpoint="a:1") for name in ("b", "a", "b")]
    with pytest.raises(PipelineError, match="in no order, as earlier versions of routerd wrote them"):
        make_plan(lambda: iter(rows), [row(endpoints=["a:1"])], Wishes())


def test_more_entities_need_no_more_memory() -> None:
    """But for the text of the plan: rows are not kept, however often they are read."""

    def peak(number: int) -> int:
        def rows() -> Iterator[dict[str, Any]]:
            for at in range(number):
                yield row(meid=f"ran-{at:07d}", endpoint=f"e{at % 7}:1", messages=at % 50, by_meid=True)

        tracemalloc.start()
        made = make_plan(rows, [row(endpoints=["e0:1"])], Wishes(remove=("e1:1",)))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert made.entities == number
        assert made.moves >= number // 7
        return most - sum(map(sys.getsizeof, made.owners))

    few = peak(2000)
    assert peak(8000) < 1.6 * few


def test_an_entity_whose_octets_the_log_does_not_have_is_told() -> None:
    r"""The log has octets that are no UTF-8 as ``\xNN``: a map with that name would leave the entity without owner."""
    rows = [
        {"meid": meid, "mtype": 1, "sub_id": -1, "endpoint": "h:1", "messages": 5, "by_meid": True, "last": None}
        for meid in (r"E2\x", r"E2\xff")
    ]
    sets = [{"mtype": 1, "sub_id": -1, "endpoints": ["h:1"], "whole": True, "messages": 10}]
    made = make_plan(lambda: rows, sets, Wishes())
    assert made.owners == [r"mme_ar|h:1|E2\x"]
    assert made.odd == [r"managed entity 'E2\\xff' does not fit into a table"]
