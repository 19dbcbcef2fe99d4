"""The pages are true: whatever they tell a reader to type is typed here, in order, on a clean machine."""

import re
from pathlib import Path

import pytest

from tests.support.routers.documented import PAGES, ROOT, blocks, program, run

# What a block that is no program may be.
SHOWN = {"text", "conf", "json", "toml", "yaml", "promql", "c", "js"}
PROGRAMS = r"routerd(?! \d)|make|pip|python3?|systemctl|curl|spark-submit|qdstat|qdmanage|qdrouterd"
COMMANDS = re.compile(rf"(?m)^(?:\$ )?(?:[\w./$]*/)?(?:{PROGRAMS}) ")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if program(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_what_a_page_says_works(page: Path, tmp_path: Path) -> None:
    """Each command succeeds, and prints the words that the page shows."""
    done = run(page, tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_command_escapes_the_test(page: Path) -> None:
    """Every block says what it is; none that is only shown holds commands, nor does one that is indented."""
    for block in blocks(page):
        assert block.language in SHOWN | {"sh", "console", "python"}, block.place
        assert block.language not in SHOWN or block.more or not COMMANDS.search(block.text), block.place
        assert block.language != "console" or block.text.startswith("$ "), block.place
    fenced_out = re.sub(r"(?ms)^```.*?^```\n", "", page.read_text(encoding="utf-8"))
    assert not [line for line in re.findall(r"(?m)^    (\S.*)$", fenced_out) if COMMANDS.match(line)]
