"""`routerd table`: files in, sentences and statuses out."""

import json

import pytest
from click.testing import CliRunner

from routerd.__main__ import main

TABLE = "newrt|start|one\nmse|1000|10|a:1,b:1\nmse|1000|-1|c:1\nnewrt|end|2\n"
MAP = "meid_map|start|m\nmme_ar|o:1|e1 e2\nmeid_map|end|1\n"


@pytest.fixture
def run(tmp_path):
    def invoke(*arguments, **files):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        given = [str(tmp_path / one) if (tmp_path / one).exists() else one for one in arguments]
        return CliRunner().invoke(main, ["table", *given])

    return invoke


def test_check_says_what_is_there(run):
    result = run("check", "a", a=TABLE + MAP)
    assert result.exit_code == 0
    assert "table one: ok (2 entries, 1 message type, 3 endpoints)" in result.output
    assert "map m: ok (2 owned, 0 deleted)" in result.output


def test_check_names_file_line_and_reason(run, tmp_path):
    result = run("check", "a", a=TABLE.replace("b:1", "b"))
    assert result.exit_code == 1
    assert f"{tmp_path}/a:2: endpoint 'b' is not host:port: 'mse|1000|10|a:1,b'" in result.output


def test_check_of_a_file_without_tables(run):
    result = run("check", "a", a="")
    assert result.exit_code == 1
    assert "begins with newrt|start" in result.output


def test_check_of_a_missing_file(run):
    result = run("check", "/nowhere/at/all")
    assert result.exit_code == 1
    assert "cannot be read: No such file" in result.output


def test_compat_goes_on_as_the_library_does(run):
    result = run("check", "--compat", "a", a=TABLE.replace("newrt|end|2", "newrt|end|2\nrubbish"))
    assert result.exit_code == 0
    assert "ok (2 entries" in result.output


def test_json_is_for_programs(run):
    """Of a check with mistakes, of a comparison and of an explanation; the exit status stays."""
    bad = run("check", "--json", "a", a=TABLE.replace("b:1", "b") + MAP)
    found = json.loads(bad.output)
    assert (bad.exit_code, [part["usable"] for part in found["parts"]]) == (1, [False, True])
    assert found["warnings"][0]["line"] == 2
    changed = run("diff", "--json", "a", "b", a=TABLE, b=TABLE.replace("c:1", "d:1"))
    assert (changed.exit_code, len(json.loads(changed.output))) == (1, 1)
    way = run("explain", "--json", "a", "--mt", "1000", a=TABLE)
    assert (way.exit_code, json.loads(way.output)["sent"]) == (0, True)
    nowhere = run("explain", "--json", "a", "--mt", "7", a=TABLE)
    assert (nowhere.exit_code, json.loads(nowhere.output)["sent"]) == (1, False)


def test_show(run):
    assert "a:1,b:1" in run("show", "a", a=TABLE).output
    shown = json.loads(run("show", "--json", "a", a=TABLE + MAP).output)
    assert shown["entries"][1]["groups"] == "c:1"
    assert shown["meids"] == {"e1": "o:1", "e2": "o:1"}


def test_diff(run):
    same = run("diff", "a", "b", a=TABLE, b=TABLE)
    assert (same.exit_code, same.output) == (0, "")
    other = run("diff", "a", "b", a=TABLE, b=TABLE.replace("c:1", "d:1") + MAP)
    assert other.exit_code == 1
    assert other.output.splitlines() == ["~ 1000|-1 c:1 -> d:1", "+ meid e1 o:1", "+ meid e2 o:1"]


def test_explain(run):
    found = run("explain", "--mt", "1000", "--sid", "7", "a", a=TABLE)
    assert found.exit_code == 0
    assert found.output.splitlines() == [
        "message type 1000, subscription 7: no entry",
        "message type 1000, subscription -1: line 3, mse|1000|-1|c:1",
        "group 1: one copy to c:1",
    ]
    assert run("explain", "--mt", "9", "a", a=TABLE).exit_code == 1


def test_a_bad_table_explains_nothing(run):
    result = run("explain", "--mt", "1", "a", a="newrt|start\n")
    assert result.exit_code == 1
    assert "table not complete" in result.output


def test_show_takes_no_endpoint_for_markup(run):
    """An IPv6 address stands in brackets, as rich's markup does."""
    result = run("show", "a", a="newrt|start|[red]\nmse|7|-1|[fe80::1]:4560\nnewrt|end|1\n")
    assert "[fe80::1]:4560" in result.output
    assert "table [red]" in result.output
