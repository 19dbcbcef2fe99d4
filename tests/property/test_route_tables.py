"""Any text is a table or a reason, whatever its pieces; and what is written is what is read."""

from hypothesis import given
from hypothesis import strategies as st

from core.routes.oddity import BadTableError
from core.routes.parser import Parser
from core.routes.table import MeidMap, Table

WORDS = [
    "newrt",
    "updatert",
    "mse",
    "rte",
    "del",
    "meid_map",
    "mme_ar",
    "mme_del",
    "start",
    "begin",
    "end",
    "%meid",
]
TOKENS = st.sampled_from(
    [*WORDS, "|", "|", "|", "\n", "\n", "\r\n", "\r", "#", " #", ",", ";", " ", "\t", "1", "-1", "a:1", "x"]
)
TEXTS = st.one_of(st.text(max_size=200), st.lists(TOKENS, max_size=80).map("".join))
NUMBERS = st.integers(-(1 << 31), (1 << 31) - 1)
ENDPOINTS = st.from_regex(r"[a-z]{1,8}:[1-9][0-9]{0,3}", fullmatch=True)
GROUPS = st.lists(st.lists(ENDPOINTS, min_size=1, max_size=4), min_size=1, max_size=4)
ENTRIES = st.lists(st.tuples(NUMBERS, st.lists(ENDPOINTS, max_size=2), NUMBERS, GROUPS), max_size=8)


def results(pieces: list[str], compatible: bool) -> list[object]:
    parser = Parser(compatible)
    found = [one for piece in pieces for one in parser.feed(piece)]
    return [*found, *parser.finish()]


def seen(result: object) -> object:
    """What can be compared of a result."""
    if isinstance(result, BadTableError):
        return result.table_id, result.reason, result.oddities
    if isinstance(result, MeidMap):
        return result
    assert isinstance(result, Table)
    return result.table_id, list(result.rows()), result.complete


@given(TEXTS, st.booleans())
def test_any_text_is_tables_or_reasons(text, compatible):
    for result in results([text], compatible):
        assert isinstance(result, Table | MeidMap | BadTableError)
        if isinstance(result, BadTableError):
            assert result.reason


@given(TEXTS, st.booleans(), st.data())
def test_pieces_make_no_difference(text, compatible, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert list(map(seen, results(pieces, compatible))) == list(map(seen, results([text], compatible)))


@given(ENTRIES)
def test_what_is_written_is_read(entries):
    lines = [
        f"mse|{','.join([str(mt), *senders])}|{sid}|{';'.join(map(','.join, groups))}"
        for mt, senders, sid, groups in entries
    ]
    (result,) = results(["\n".join(["newrt|start|id", *lines, f"newrt|end|{len(lines)}", ""])], False)
    assert isinstance(result, Table), result
    assert [str(row) for row in result.rows()] == lines
