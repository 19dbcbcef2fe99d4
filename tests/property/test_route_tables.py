"""Any text is a table or a reason, whatever its pieces; and what is written is what is read."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.rmr.tables.building import OpenTable
from core.rmr.tables.decoding import lossless
from core.rmr.tables.parser import Parser
from core.rmr.tables.table import MeidMap, Table
from core.rmr.tables.warning import BadTableError

WORDS = ["newrt", "updatert", "mse", "rte", "del", "meid_map", "mme_ar", "mme_del", "start", "begin", "end", "%meid"]
TOKENS = st.sampled_from(
    [*WORDS, "|", "|", "|", "\n", "\n", "\r\n", "\r", "#", " #", ",", ";", " ", "\t", "1", "-1", "a:1", "x",
     "9" * 5000, "-" + "9" * 5000, "\udcff", "\udced\udca0\udc80", "\u00e9", "\0"]
)  # fmt: skip
OCTETS = st.binary(max_size=200).map(lossless)
TEXTS = st.one_of(st.text(max_size=200), OCTETS, st.lists(TOKENS, max_size=80).map("".join))
NUMBERS = st.integers(-(1 << 31), (1 << 31) - 1)
ENDPOINTS = st.builds("{}:{}".format, st.sampled_from("abcdefgh"), st.integers(1, 65535))
GROUPS = st.lists(st.lists(ENDPOINTS, min_size=1, max_size=4), min_size=1, max_size=4)


# Parts of a record: those that leave it plain, and those that do not, or only in one of the two ways to read.
# fmt: off
NAMES = (
    ["a:1", "b:22", "x-y.z:65535", "[::1]:5", "a:01"],
    ["a:0", "a:65536", "a:", ":1", "a", "[]:1", "[g]:1", "[::1:1", "a:1:2", "%meid", "a#b:1", "a]:1",
     "a:123456", "a:1x", "-:1", "|", "", "\u00e4:1", "a\x7f:1", "a:\u0661", " a:1", "a:1 ", "a :1",
     "\x1ca:1", "a:1\x0b", " "],
)
NUMBERS_AS_TEXT = (
    ["0", "7", "-1", "007", "2147483647", "-2147483648"],
    ["2147483648", "-2147483649", "99999999999", "00000000001", "1x", "-", "", "+1", "1 2", "#", "1,",
     "\u0661"],
)
ENDS = (
    ["\n", "\r\n", "\r", " # c|d\n", "\t#\n", " \n", "\n\n", " #\r"],
    ["#x\n", "|\n", "|1\n", "| #\n", "\t#\u00e9\n", "\r\r\n", "", "\x0c\n", " #"],
)
BLANKS = (["", " ", "\t", " \t "], ["\x0b", "\xa0", "\0"])
KINDS = (["mse", "rte"], ["ms", "del", "msex", "MSE", "#mse", "newrt", "mme_ar", "m", ""])
LISTS = (
    [",".join(NAMES[0]), ",".join(["a:1"] * 32)],
    [",".join(["a:1"] * 33), *NAMES[1], *(f"a:1,{one}" for one in NAMES[1]),
     *(f"{one},a:1" for one in NAMES[1])],
)
SENDERS = (
    ["", *(f",{one}" for one in LISTS[0]), ",a:1" * 127],
    [*(f",{one}" for one in LISTS[1]), ",a:1" * 128, " ,a:1", ",a:1;a:1"],
)
GROUPS_AS_TEXT = (
    ["%meid", *LISTS[0], ";".join(LISTS[0]), ";".join(["a:1"] * 64)],
    [*LISTS[1], *(f"a:1;{one}" for one in LISTS[1]), *(f"{one};a:1" for one in LISTS[1]),
     ";".join(["a:1"] * 65), ";"],
)
# fmt: on
PARTS = (BLANKS, KINDS, BLANKS, NUMBERS_AS_TEXT, SENDERS, BLANKS, NUMBERS_AS_TEXT, GROUPS_AS_TEXT, ENDS)
PLAIN = ("", "mse", "", "7", "", "", "1", "a:1", "\n")


def record(parts: Sequence[str]) -> str:
    first, name, left, kind, senders, right, number, groups, end = parts
    fields = [name, kind + senders, *[number] * ("m" in name), groups]
    return first + f"{left}|{right}".join(fields) + end


def lines(records: Iterable[str]) -> str:
    return "".join(["newrt|start|id\n", *records, "\nnewrt|end\n"])


RECORDS = st.tuples(*(st.sampled_from(good * (5 * len(odd) // len(good) + 1) + odd) for good, odd in PARTS)).map(record)
LINES = st.lists(RECORDS, min_size=1, max_size=4).map(lines)
ENTRIES = st.lists(st.tuples(NUMBERS, st.lists(ENDPOINTS, max_size=2), NUMBERS, GROUPS), max_size=8)


def results(pieces: list[str], compatible: bool) -> list[object]:
    parser = Parser(compatible)
    found = [one for piece in pieces for one in parser.feed(piece)]
    return [*found, *parser.finish()]


def seen(result: object) -> object:
    """What can be compared of a result."""
    if isinstance(result, BadTableError):
        return result.table_id, result.reason, result.warnings
    if isinstance(result, MeidMap):
        return result
    assert isinstance(result, Table)
    rows = [(one, str(one), one.groups.by_meid) for one in result.rows()]
    return result.table_id, rows, result.complete, set(result.groups.endpoints)


@given(TEXTS, st.booleans())
def test_any_text_is_tables_or_reasons(text, compatible):
    for result in results([text], compatible):
        assert isinstance(result, Table | MeidMap | BadTableError)
        (result.table_id + str(getattr(result, "reason", ""))).encode()
        if isinstance(result, BadTableError):
            assert result.reason
        elif isinstance(result, Table):
            "".join(result.groups.endpoints).encode()


@given(TEXTS, st.booleans(), st.data())
def test_pieces_make_no_difference(text, compatible, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert list(map(seen, results(pieces, compatible))) == list(map(seen, results([text], compatible)))


def read_slowly(pieces: list[str], compatible: bool, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """With the rules alone, as no record is plain."""
    with monkeypatch.context() as patch:
        patch.setattr(OpenTable, "take", lambda _self, _text, at, _line: (at, 0))
        return results(pieces, compatible)


@pytest.mark.parametrize("compatible", [False, True])
@pytest.mark.parametrize("place", range(len(PARTS)))
def test_a_record_with_one_part_that_may_be_odd_is_read_as_any_other(monkeypatch, place, compatible):
    """Twice in a table: what is read once is known."""
    for one in (*PARTS[place][0], *PARTS[place][1]):
        for name in KINDS[0]:
            text = record([PLAIN[0], name, *PLAIN[2:place], one, *PLAIN[place + 1 :]] if place > 1 else
                          [*PLAIN[:place], one, *PLAIN[place + 1 :]])  # fmt: skip
            for whole in (lines([text]), lines([text, record(PLAIN), text])):
                quickly = list(map(seen, results([whole], compatible)))
                assert quickly == list(map(seen, read_slowly([whole], compatible, monkeypatch))), whole


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(LINES, LINES, LINES, TEXTS), st.booleans(), st.data())
def test_records_that_are_plain_are_read_as_any_other(monkeypatch, text, compatible, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=3)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    quickly = list(map(seen, results(pieces, compatible)))
    assert quickly == list(map(seen, read_slowly(pieces, compatible, monkeypatch)))


@given(ENTRIES)
def test_what_is_written_is_read(entries):
    lines = [
        f"mse|{','.join([str(mt), *senders])}|{sid}|{';'.join(map(','.join, groups))}"
        for mt, senders, sid, groups in entries
    ]
    (result,) = results(["\n".join(["newrt|start|id", *lines, f"newrt|end|{len(lines)}", ""])], False)
    assert isinstance(result, Table), result
    assert [str(row) for row in result.rows()] == lines
