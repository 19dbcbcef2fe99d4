"""Sentences and figures of the route table guide that no other test has by name, in the guide's order.

The others: figures 1 and 3, order, senders and comments in test_parser.py; acknowledgements in
test_stream.py; round robin, groups and reserved types in tests/simulation/test_table_messages.py; seeds in
tests/simulation/test_kept_tables.py.
"""

import hashlib

import pytest

from core.rmr.managers.messages import REQUEST, STATE, TABLE
from core.rmr.tables.lookup import Question, explain
from core.rmr.tables.parser import Parser
from core.rmr.tables.table import MeidMap, Table
from core.rmr.tables.warning import BadTableError
from tests.support.values.table_use import Use

FIGURE_6 = """newrt|start | id-64306
mse|0|-1| %meid
mse|1|-1|172.19.0.2:4560
mse|2|-1|172.19.0.2:4560
mse|3|-1|172.19.0.2:4560
mse|4|-1|172.19.0.2:4560
mse|5|-1|172.19.0.2:4560
newrt|end

meid_map | start | id-028919
mme_ar| 172.19.0.2:4560 | meid000 meid001 meid002 meid003 meid004 meid005
mme_ar| 172.19.0.42:4560 | meid100 meid101 meid102 meid103
mme_del | meid1000
meid_map | end | 1
"""


def read(text: str) -> list[object]:
    parser = Parser()
    return [*parser.feed(text), *parser.finish()]


def table(text: str) -> Table:
    (result,) = read(text)
    assert isinstance(result, Table), result
    return result


def of(*records: str, count: int | None = None) -> str:
    end = "newrt|end" if count is None else f"newrt|end|{count}"
    return "\n".join(["newrt|start|t", *records, end, ""])


def reason(text: str) -> str:
    (result,) = read(text)
    assert isinstance(result, BadTableError), result
    return result.reason


def test_the_table_has_a_start_record_entries_and_an_end_record() -> None:
    """Without its start entries are none, without its end there is no table."""
    assert read("mse|1000|-1|a:1\nnewrt|end|1\n") == []
    assert reason("newrt|start|t\nmse|1000|-1|a:1\n") == "table not complete"


def test_white_space_at_both_ends_of_each_field_is_ignored() -> None:
    records = " newrt \t|\tstart |  t  ", "\tmse\t| 1000,f:1 \t|  10\t|\ta:1  ", " newrt | end |  1 "
    spaced = table("\n".join([*records, ""]))
    assert [str(row) for row in spaced.rows()] == ["mse|1000,f:1|10|a:1"]
    assert spaced.table_id == "t"


def test_three_groups_are_three_messages() -> None:
    """Three groups, then three messages will be sent, one to a member of each."""
    found = explain(table(of("rte|7|a:1,b:1;c:1;d:1,e:1")), {}, Question(7, -1))
    assert found.groups == (("a:1", "b:1"), ("c:1",), ("d:1", "e:1"))


def test_the_first_group_is_required() -> None:
    assert "no endpoint" in reason(of("rte|7| "))


def test_a_sender_is_host_and_port() -> None:
    """Another port on the same host is another application."""
    found = table(of("mse|1000|10|all:1", "mse|1000,forwarder:43086|10|app2:1"))
    assert explain(found, {}, Question(1000, 10, sender="forwarder:43086")).groups == (("app2:1",),)
    assert explain(found, {}, Question(1000, 10, sender="forwarder:43087")).groups == (("all:1",),)


@pytest.mark.parametrize("start", ["newrt | begin", "newrt | begin | an id", "newrt|start", "newrt|start|x"])
@pytest.mark.parametrize("end", ["newrt | end", "newrt | end | 2"])
def test_figure_2_layouts_of_newrt(start: str, end: str) -> None:
    found = table(f"{start}\nrte|1000|a:1\nmse|1000|5|b:1\n{end}\n")
    assert (len(found), found.table_id) == (2, start.partition("|")[2].partition("|")[2].strip())


def test_the_count_is_of_mse_and_rte_entries() -> None:
    """Comments and blank lines are none; a mismatch, and the table is not used."""
    records = "rte|1|a:1", "# rte|2|a:1", "", "mse|2|3|a:1", "mse|2|4|a:1"
    assert len(table(of(*records, count=3))) == 3
    assert reason(of(*records, count=2)) == "missing table records: expected 2 got 3"
    assert reason(of(*records, count=4)) == "missing table records: expected 4 got 3"


@pytest.mark.parametrize("endpoint", ["logger:30311", "172.19.0.2:4560", "host.example.org:1"])
def test_an_endpoint_is_a_name_or_an_address_and_a_port(endpoint: str) -> None:
    assert explain(table(of(f"rte|7|{endpoint}")), {}, Question(7, -1)).groups == ((endpoint,),)


@pytest.mark.parametrize("endpoint", ["logger", "logger:", ":4560", "logger:x", "logger:0", "a:1:2"])
def test_anything_else_is_no_endpoint(endpoint: str) -> None:
    assert "is not host:port" in reason(of(f"rte|7|{endpoint}"))


def test_one_entry_for_each_pair_the_last_one() -> None:
    """In the order in which they appear, rte or mse."""
    found = table(of("mse|7|-1|a:1", "mse|7|1|x:1", "rte|7|b:1", count=3))
    assert explain(found, {}, Question(7, -1)).groups == (("b:1",),)
    assert explain(found, {}, Question(7, 1)).groups == (("x:1",),)


def test_message_types_of_the_exchange() -> None:
    """A request is 21, tables are 20, states are 22."""
    assert (TABLE, REQUEST, STATE) == (20, 21, 22)


def test_figure_4_by_managed_entity_for_one_sender() -> None:
    found = table(of("mse| 1000,forwarder:43086 | 10 | %meid"))
    owners = {"gnb1": "owner:1"}
    assert explain(found, owners, Question(1000, 10, "gnb1", "forwarder:43086")).groups == (("owner:1",),)
    assert explain(found, owners, Question(1000, 10, "gnb1", "other:43086")).groups == ()


def test_when_the_owner_changes_messages_go_to_the_new_one() -> None:
    found, use = table(of("mse|1000|10|%meid")), Use()
    for owner in ("first:1", "second:1"):
        (changed,) = read(f"meid_map|start|m\nmme_ar|{owner}|gnb1\nmeid_map|end|1\n")
        assert isinstance(changed, MeidMap)
        use = use.apply(changed)
        assert explain(found, use.owners, Question(1000, 10, "gnb1")).groups == ((owner,),)


def test_figure_5_a_map_with_its_md5() -> None:
    """Of all records between the start and end records."""
    records = "mme_ar | owner:1 | m1 m2\nmme_del | m3 m4\n"
    digest = hashlib.md5(records.encode(), usedforsecurity=False).hexdigest()
    (found,) = read(f"meid_map | start | id\n{records}meid_map | end | 2 | {digest}\n")
    assert found == MeidMap("id", {"m1": "owner:1", "m2": "owner:1"}, frozenset({"m3", "m4"}))


def test_the_count_of_a_map_is_of_its_records_not_of_managed_entities() -> None:
    records = "meid_map|start|m\nmme_ar|o:1|a b c\nmme_del|d e\nmeid_map|end|"
    (good,) = read(f"{records}2\n")
    assert isinstance(good, MeidMap)
    assert reason(f"{records}5\n") == "missing table records: expected 5 got 2"


def test_a_map_needs_to_list_changes_only() -> None:
    """What it does not name stays; what it deletes has no owner."""
    use = Use()
    for records in ("mme_ar|o:1|a b c", "mme_ar|p:1|b", "mme_del|c nobody"):
        (changed,) = read(f"meid_map|start|m\n{records}\nmeid_map|end|1\n")
        assert isinstance(changed, MeidMap)
        use = use.apply(changed)
    assert use.owners == {"a": "o:1", "b": "p:1"}


def test_figure_6_table_and_map_in_one_file() -> None:
    """Its map says 1 where it has three records, so it is refused (facts rmr 9); with 3 it is used."""
    first, second = read(FIGURE_6)
    assert isinstance(first, Table)
    assert (first.table_id, len(first)) == ("id-64306", 6)
    assert isinstance(second, BadTableError)
    assert second.reason == "missing table records: expected 1 got 3"
    _, owners = read(FIGURE_6.replace("end | 1", "end | 3"))
    assert isinstance(owners, MeidMap)
    assert (len(owners.owners), owners.deleted) == (10, {"meid1000"})
    for meid, owner in (("meid005", "172.19.0.2:4560"), ("meid100", "172.19.0.42:4560")):
        assert explain(first, owners.owners, Question(0, -1, meid)).groups == ((owner,),)
    assert explain(first, owners.owners, Question(5, 77, "meid100")).groups == (("172.19.0.2:4560",),)


@pytest.mark.parametrize("number", [0, 32000, -1, (1 << 31) - 1, -(1 << 31)])
def test_types_and_subscriptions_are_signed_numbers(number: int) -> None:
    """0 to 32000 by the glossary; all of 32 bits, as the library reads them."""
    found = table(of(f"mse|{number}|{number}|a:1"))
    assert explain(found, {}, Question(number, number)).groups == (("a:1",),)
