"""What `routerd table check` and `explain` say of a file is what a running router makes of it."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from core.rmr.managers.messages import records
from core.rmr.tables.parser import Parser
from core.rmr.tables.warning import BadTableError
from routerd.cli.table import table

LONG = "9" * 5000
ARABIC = "\u0661\u0660\u0660"  # the digits 1, 0, 0


def of(*entries: str) -> str:
    return "\n".join(["newrt|start|t", *entries, f"newrt|end|{len(entries)}", ""])


def check(folder: Path, content: bytes, *options: str) -> tuple[int, list[str]]:
    """Status and lines of `routerd table check`."""
    file = folder / "t.rt"
    file.write_bytes(content)
    done = CliRunner().invoke(table, ["check", str(file), *options])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, [line.removeprefix(str(file)) for line in done.output.splitlines()]


def routed(content: bytes, compatible: bool) -> bool:
    """Whether a router that is sent the same text uses all of it."""
    parser = Parser(compatible)
    results = [*parser.feed(records(content, compatible)), *parser.finish()]
    return bool(results) and not any(isinstance(one, BadTableError) for one in results)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (of("rte|5|a:1"), "2: message types 0 to 99 are reserved for RMR itself: messages of type 5 are"),
        (of("rte|100|a:1").replace("|start", "|anything"), "1: 'anything' stands in place of start or end"),
        (of("rte|100|a:1;;b:1"), "2: an empty group"),
        (of("rte|100|a:1;"), "2: an empty group"),
        (of("rte|100|a:1,,b:1"), "2: an empty endpoint"),
        (of("rte|100|"), "2: no endpoint"),
        (of(f"rte|{ARABIC}|a:1"), "2: message type is no number"),
        (of(f"rte|100|a:{ARABIC}"), f"2: endpoint 'a:{ARABIC}' is not host:port"),
        (of(f"rte|{LONG}|a:1"), "2: message type does not fit into 32 bits"),
        (of(f"mse|100|-{LONG}|a:1"), "2: subscription id does not fit into 32 bits"),
        (of("rte|100|a:1").replace("|1\n", f"|{LONG}\n"), "3: record count does not fit into 32 bits"),
    ],
)
def test_what_is_odd_is_one_line(content: str, said: str, tmp_path: Path) -> None:
    """Never a traceback; and the exit status is what the router does with it."""
    status, lines = check(tmp_path, content.encode())
    assert lines[0].startswith(f":{said}"), lines
    assert (status == 0) is routed(content.encode(), compatible=False)
    check(tmp_path, content.encode(), "--compat")


def test_octets_that_are_no_text_are_one_line(tmp_path: Path) -> None:
    """A file saved in Latin-1: its id is no text, for the router as for the command."""
    content = of("rte|100|a:1").replace("|t\n", "|Köln\n").encode("latin-1")
    for options in ((), ("--compat",)):
        status, lines = check(tmp_path, content, *options)
        assert status == 1
        assert "is not UTF-8 (octet 0xf6)" in lines[0]
        assert not routed(content, bool(options))


def test_a_byte_order_mark_is_no_part_of_a_table(tmp_path: Path) -> None:
    """An editor wrote it. The library reads nothing behind it, and --compat says so."""
    content = "\ufeff".encode() + of("rte|100|a:1").encode()
    assert check(tmp_path, content) == (0, [": table t: ok (1 entry, 1 message type, 1 endpoint)"])
    assert routed(content, compatible=False)
    status, lines = check(tmp_path, content, "--compat")
    assert status == 1
    assert lines[0].startswith(":1: a byte order mark, behind which the RMR library reads no record")
    assert not routed(content, compatible=True)


@pytest.mark.parametrize(("mt", "status", "said"), [(5, 1, "is rejected"), (105, 0, "one copy to a:1")])
def test_explain_knows_reserved_types(mt: int, status: int, said: str, tmp_path: Path) -> None:
    """The router routes no message of them, whatever its table says."""
    file = tmp_path / "t.rt"
    file.write_text(of(f"rte|{mt}|a:1"))
    done = CliRunner().invoke(table, ["explain", str(file), "--mt", str(mt)])
    assert (done.exit_code, said in done.output) == (status, True)


def entries(content: str) -> list[str]:
    """What a table has, read as the library reads it."""
    parser = Parser(compatible=True)
    (result,) = [*parser.feed(content), *parser.finish()]
    assert not isinstance(result, BadTableError), result
    return [str(row) for row in result.rows()]  # type: ignore[union-attr]  these are no maps


@pytest.mark.parametrize(
    ("entry", "read"),
    [
        ("rte|1000|a:1 # x|7", "mse|1000|7|a:1"),
        ("rte|1000|a:1 # x|7 # y", "mse|1000|7|a:1"),
        ("rte|1000|a#b:1 #c", "mse|1000|-1|a#b:1 #c"),
        ("mse|1000|3|a:1 # x|7", "mse|1000|3|a:1"),
        ("mse|1000|3|b:1 ,a:1", "mse|1000|3|b:1 ,a:1"),
        ("mse|1000|3|b:1, a:1", "mse|1000|3|b:1,a:1"),
        ("mse|1000, b:1|3|a:1", "mse|1000, b:1|3|a:1"),
    ],
)
def test_compatible_reading_is_the_library_s(entry: str, read: str) -> None:
    """Bars count in comments, only the first # of a field begins one, and blanks are parts of names.

    An endpoint with a blank behind it is reached by nobody, a sender with one matches nobody; a blank in
    front of an endpoint is skipped (docs/route-tables.md, Strict and compatible).
    """
    assert entries(of(entry)) == [read]


def test_the_library_loses_managed_entities_of_long_records() -> None:
    """127 of a record, and no more."""
    meids = " ".join(f"m{number}" for number in range(130))
    parser = Parser(compatible=True)
    (result,) = parser.feed(f"meid_map|start|m\nmme_ar|a:1|{meids}\nmeid_map|end|1\n")
    assert len(result.owners) == 127  # type: ignore[union-attr]  it is a map
