"""The parser of route tables: the spec's figures and rules by name, and the odd records that are only warned of."""

import hashlib

import pytest

from core.rmr.active.compiled import compile_table
from core.rmr.tables.fields import Groups
from core.rmr.tables.lookup import Question, explain
from core.rmr.tables.parser import Parser
from core.rmr.tables.table import MeidMap, Table
from core.rmr.tables.warning import BadTableError
from tests.support.beds.effort import Effort

BASIC = """newrt | start | rt-0928
rte   | 2000  | logger:30311
mse   | 1000  | 10 | forwarder:43086
mse   | 1000  | 21 | app0:43086,app1:43086
newrt | end   | 3
"""
COMPLETE = """newrt | start | rt-0928
rte | 2000 | logger:30311
mse | 1000 | 10 | forwarder:43086
mse | 1000,forwarder:43086 | 10 | app2:43086
mse | 1000 | -1 | app0:43086,app1:43086; logger:20311
newrt | end | 4
"""
MAP = """meid_map | start | id-028919
mme_ar| 172.19.0.2:4560 | meid000 meid001
mme_ar| 172.19.0.42:4560 | meid100 meid101
mme_del | meid1000
meid_map | end | 3
"""


def read(text: str, compatible: bool = False) -> list[object]:
    parser = Parser(compatible)
    return [*parser.feed(text), *parser.finish()]


def table(text: str, compatible: bool = False) -> Table:
    (result,) = read(text, compatible)
    assert isinstance(result, Table), result
    return result


def refused(text: str, compatible: bool = False) -> BadTableError:
    (result,) = read(text, compatible)
    assert isinstance(result, BadTableError), result
    return result


def rows(result: Table) -> list[str]:
    return [str(row) for row in result.rows()]


def wrap(record: str, count: int = 1) -> str:
    return f"newrt|start|t\n{record}\nnewrt|end|{count}\n"


def test_figure_1_a_basic_table():
    result = table(BASIC)
    assert result.table_id == "rt-0928"
    assert rows(result) == [
        "mse|2000|-1|logger:30311",
        "mse|1000|10|forwarder:43086",
        "mse|1000|21|app0:43086,app1:43086",
    ]
    assert [row.line for row in result.rows()] == [2, 3, 4]


def test_figure_3_the_last_valid_entry_wins_for_its_sender():
    result = table(COMPLETE)
    others = explain(result, {}, Question(1000, 10, sender="app0:43086"))
    own = explain(result, {}, Question(1000, 10, sender="forwarder:43086"))
    assert (others.groups, own.groups) == ((("forwarder:43086",),), (("app2:43086",),))
    rest = explain(result, {}, Question(1000, 99))
    assert rest.groups == (("app0:43086", "app1:43086"), ("logger:20311",))


def test_a_generic_entry_behind_a_specific_one_wins():
    result = table("newrt|start\nmse|1,a:1|5|b:1\nmse|1|5|c:1\nnewrt|end\n")
    assert explain(result, {}, Question(1, 5, sender="a:1")).groups == (("c:1",),)


def test_an_rte_is_an_mse_without_subscription():
    assert rows(table(wrap("rte|7|a:1"))) == rows(table(wrap("mse|7|-1|a:1")))


def test_an_rte_may_have_its_subscription_last():
    assert rows(table(wrap("rte|7|a:1|3"))) == ["mse|7|3|a:1"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_three_record_terminators(end):
    assert rows(table(BASIC.replace("\n", end))) == rows(table(BASIC))


@pytest.mark.parametrize("verb", ["start", "begin"])
def test_both_words_open_a_table(verb):
    assert len(table(f"newrt|{verb}|x\nmse|1|2|a:1\nnewrt|end\n")) == 1


def test_comments_blank_lines_and_white_space():
    entry = " \tmse |\t1 | 2 | a:1,b:2 \t# why"
    text = f"# all\n\n  \t# more\nnewrt|start # first\n{entry}\nnewrt | end | 1 # done\n"
    assert rows(table(text)) == ["mse|1|2|a:1,b:2"]


def test_a_bar_in_a_comment_separates_nothing():
    assert rows(table(wrap("rte|100|a:1 # b|7"))) == ["mse|100|-1|a:1"]


def test_a_hash_within_a_word_is_no_comment():
    assert "'a#x:1' is not host:port" in refused(wrap("mse|1|2|a#x:1")).reason


def test_a_wrong_count_drops_the_table():
    assert refused(BASIC.replace("end   | 3", "end | 9")).reason == "missing table records: expected 9 got 3"


def test_an_empty_count_is_none():
    bad = refused(BASIC.replace("end   | 3", "end |"))
    assert bad.reason.startswith("missing table records")


def test_no_count_is_no_check():
    assert len(table(BASIC.replace("| 3", ""))) == 3


def test_a_start_within_a_table_drops_the_open_one():
    first, second = read("newrt|start|one\nmse|1|2|a:1\n" + BASIC)
    assert isinstance(first, BadTableError)
    assert (first.table_id, first.reason) == ("one", "table not complete")
    assert isinstance(second, Table)
    assert len(second) == 3


def test_a_table_cut_short_is_bad():
    assert refused("newrt|start|one\nmse|1|2|a:1\n").reason == "table not complete"


def test_a_record_cut_short_is_said():
    assert "cut short" in refused(BASIC.rstrip()).warnings[0].reason
    assert len(table(BASIC.rstrip(), compatible=True)) == 3


def test_updates_and_deletions():
    result = table("updatert|start|u\nmse|1|2|a:1\ndel|1|3\nupdatert|end|2\n")
    assert not result.complete
    assert rows(result) == ["mse|1|2|a:1", "del|1|3"]
    assert explain(result, {}, Question(1, 3)).groups == ()


def test_the_owner_of_the_managed_entity():
    result = table("newrt|start\nmse|0|-1|%meid\nnewrt|end|1\n")
    assert result.row(0).groups == Groups(by_meid=True)
    owners = {"meid100": "172.19.0.42:4560"}
    assert explain(result, owners, Question(0, 5, "meid100")).groups == (("172.19.0.42:4560",),)
    assert explain(result, owners, Question(0, 5, "meid7")).groups == ()
    assert "no MEID" in explain(result, owners, Question(0)).steps[-1]


def test_a_meid_map():
    (result,) = read(MAP)
    assert isinstance(result, MeidMap)
    assert result.table_id == "id-028919"
    assert result.owners["meid001"] == "172.19.0.2:4560"
    assert len(result.owners) == 4
    assert result.deleted == {"meid1000"}


def test_figure_6_has_a_wrong_count():
    assert refused(MAP.replace("end | 3", "end | 1")).reason == "missing table records: expected 1 got 3"


def test_the_md5_of_the_records_is_verified():
    records = "".join(MAP.splitlines(keepends=True)[1:-1])
    right = hashlib.md5(records.encode(), usedforsecurity=False).hexdigest()
    (result,) = read(MAP.replace("end | 3", f"end | 3 | {right}"))
    assert isinstance(result, MeidMap)
    assert right in refused(MAP.replace("end | 3", f"end | 3 | {right[::-1]}")).reason
    (result,) = read(MAP.replace("end | 3", "end | 3 | 0"), compatible=True)
    assert isinstance(result, MeidMap)


def test_a_sender_is_no_receiver_of_its_own_message():
    result = table(wrap("mse|1|2|a:1,b:1;a:1;c:1"))
    found = explain(result, {}, Question(1, 2, sender="a:1"))
    assert found.groups == (("b:1",), ("c:1",))


def test_an_entry_that_leads_nowhere_has_no_other_in_its_place():
    result = table("newrt|start\nmse|1|2|a:1\nmse|1|-1|b:1\nnewrt|end|2\n")
    assert explain(result, {}, Question(1, 2, sender="a:1")).groups == ()


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("mse|abc|2|a:1", "message type is no number"),
        ("mse|1|x|a:1", "subscription id is no number"),
        ("mse|99999999999|2|a:1", "does not fit into 32 bits"),
        ("mse|1|2|", "no endpoint"),
        ("mse|1|2", "mse needs 4 fields or more"),
        ("rte|1", "rte needs 3 fields or more"),
        ("mse|1|2|host", "is not host:port"),
        ("mse|1|2|host:99999", "is not host:port"),
        ("mse|1|2|a:1,,b:1", "an empty endpoint"),
        ("mse|1|2|%meid;a:1", "groups after %meid"),
        ("mse|1|2|" + ";".join(["a:1"] * 65), "more than 64 groups"),
        ("mse|1|2|" + ",".join(["a:1"] * 33), "more than 32 endpoints"),
        ("mse|1" + ",a:1" * 128 + "|2|a:1", "more than 127 senders"),
        ("mse|1|2|a:1" + "|x" * 130, "more than 128 fields"),
        ("rabbit|1|x", "no record of a route table"),
        ("mme_ar|a:1|m", "a MEID record outside of any map"),
        ("mse|1|2|a:1|b:1", "surplus fields"),
    ],
)
def test_each_warning_is_said_with_its_line(record, reason):
    bad = refused(wrap(record).replace("newrt|end|1", "newrt|end"))
    assert reason in bad.warnings[0].reason
    assert bad.warnings[0].line == 2


@pytest.mark.parametrize("record", ["mse|1|2|a:1", "meid_map|end", "newrt|end|3", "nonsense"])
def test_records_outside_of_any_table_are_said(record):
    parser = Parser()
    assert not [*parser.feed(record + "\n"), *parser.finish()]
    assert [one.line for one in parser.outside] == [1]


def test_compatible_reading_does_what_the_library_does():
    """Facts rmr 4: the first letter decides, numbers are lenient, junk counts."""
    text = "nonsense|go|t\nrabbit|abc|a:1\nmse|x9|2|b:1\nmse|1|2|\nmse|1\nnewrt|end|3\n"
    assert rows(table(text, compatible=True)) == ["mse|0|-1|a:1", "mse|0|2|b:1"]


def test_many_oddities_are_counted_not_kept():
    parser = Parser()
    (result,) = parser.feed("newrt|start\n" + "mse|x|1|a:1\n" * 1500 + "newrt|end\n")
    assert isinstance(result, BadTableError)
    assert (len(parser.warnings), parser.more_warnings) == (1000, 500)
    assert result.reason.endswith("(and 1499 more)")


def test_ipv6_endpoints():
    assert rows(table(wrap("mse|1|2|[::1]:4560"))) == ["mse|1|2|[::1]:4560"]


@pytest.mark.parametrize("row", ["app{a}:1;app{b}:1", "app{a}:1,app{c}:1", "ep{at}:1"])
def test_python_does_little_for_each_of_ten_thousand_entries(row):
    """Native code reads them and builds their table, so that whoever sends a table hears of it soon."""
    groups = (row.format(at=at, a=at % 300, b=at % 7, c=at % 299) for at in range(10_000))
    records = (f"mse|{1000 + at % 1000}|{at // 1000}|{one}\n" for at, one in enumerate(groups))
    text = "".join(["newrt|start|t\n", *records, "newrt|end|10000\n"])
    with Effort() as effort:
        assert compile_table(table(text), 1).native.entries == 10_000
    assert effort.lines < 4 * 10_000
