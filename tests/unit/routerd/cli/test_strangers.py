"""Names of strangers on a terminal: a client chooses its container's id and its addresses."""

import io
import json
from typing import Any

import pytest
from rich.console import Console

from routerd.cli.printed import print_json
from routerd.cli.stat import Options, show

EVIL = "evil\x1b]0;title\x07\x1b[2J\x9b31m\nrow\u202etxt"
HARMLESS = "evil\\x1b]0;title\\x07\\x1b[2J\\x9b31m\\nrow\\u202etxt"


@pytest.mark.parametrize(
    ("view", "row"),
    [
        ("connections", {"identity": "1", "container": EVIL}),
        ("links", {"identity": "1", "owningAddr": f"M0{EVIL}"}),
        ("addresses", {"key": f"M0{EVIL}"}),
        ("connectors", {"name": "c", "connectionStatus": "CONNECTING", "connectionMsg": EVIL}),
        ("auto_links", {"name": "c", "lastError": EVIL}),
        ("router", {"id": EVIL}),
    ],
)
def test_tables_have_escapes(view: str, row: dict[str, Any]) -> None:
    out = io.StringIO()
    show(Console(file=out, width=400, highlight=False), Options(view=view), [row])
    lines = out.getvalue().splitlines()
    assert all(line.isprintable() for line in lines)
    assert HARMLESS in "".join(lines)


def test_json_has_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON itself wants them below a space alone; letters stay as they are."""
    value = {"name": "\x1b[2J\x7f\x9b31m\u202e\U000e0001\ud7ffé→\U0001f600"}
    for in_a_line in (False, True):
        print_json(value, in_a_line=in_a_line)
        text = capsys.readouterr().out
        assert text.replace("\n", "").isprintable()
        assert "é→\U0001f600" in text
        assert json.loads(text) == value
        assert text.count("\n") == (1 if in_a_line else 3)
