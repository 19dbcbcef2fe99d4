"""Words that the project has retired do not come back."""

import re
from pathlib import Path

from tests.support.tree import CODE, OURS, ROOT, lines, package, place, sources


def retired() -> tuple[list[str], list[str]]:
    """The words that docs/glossary.md has retired: those that may stand nowhere, and those that may name no file."""
    table = (ROOT / "docs/glossary.md").read_text().partition("## Words that we retired")[2].partition("\n\n| old")[2]
    rows = [line.split("|")[1] for line in table.split("\n\n")[0].splitlines() if line.startswith("| ")]
    groups = [group for row in rows for group in row.split(";") if "(" not in group]
    words = [word.strip(" `") for group in groups for word in group.split(",")]
    return [word for word in words if "*" not in word], [word.strip("*") for word in words if "*" in word]


def in_names(words: list[str]) -> re.Pattern[str]:
    """Matches the words, also in the plural and as parts of names: `trunk_port`, `TRUNKS`, `openTrunk`."""
    lower, upper, camel = ("|".join(map(case, words)) for case in (str.lower, str.upper, str.capitalize))
    alone = rf"(?<![A-Za-z])(?:(?:{lower}|{camel})s?(?![a-z])|(?:{upper})S?(?![A-Za-z]))"
    return re.compile(rf"{alone}|(?<=[a-z])(?:{camel})s?(?![a-z])")


def test_a_retired_word_does_not_come_back() -> None:
    """One thing has one name, today's, in code, comments and pages; docs/glossary.md has the table."""
    nowhere, no_file = retired()
    found = in_names(nowhere)
    pages = [file for file in sources(".md") if file.name not in ("changelog.md", "glossary.md")]
    code = [file for file in sources(*CODE) if package(file) in (*OURS, "tests") and file != Path(__file__)]
    wrong = [
        f"{place(file, number)}: {match[0]!r} is retired: docs/glossary.md has the word of today"
        for file in (*code, *pages)
        for number, line in lines(file, found)
        for match in found.finditer(line)
    ]
    named = in_names([*nowhere, *no_file])
    wrong += [f"{file.relative_to(ROOT)}: its name is retired" for file in (*code, *pages) if named.search(file.stem)]
    assert not wrong, "\n".join(wrong)


def test_the_rule_about_retired_words_can_fail() -> None:
    """It reads both kinds of words, and finds one in names of any style, but not inside another word."""
    nowhere, no_file = retired()
    assert {"trunk", "liaison", "couplings", "wconn"} <= set(nowhere)
    assert {"family", "past"} <= set(no_file)
    assert not {"stash", "plan", "worker"} & {*nowhere, *no_file}, "retired for one meaning"
    found = in_names(nowhere)
    for text in ("trunk", "Trunks of it", "open_trunk(peer)", "TRUNK_CONNECTION", "openTrunk", "a liaison's"):
        assert found.search(text), text
    for text in ("truncate", "announce", "decouple", "FABRICATED_COST", "TRUNKATED"):
        assert not found.search(text), text
