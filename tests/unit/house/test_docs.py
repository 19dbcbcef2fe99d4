"""The pages: what they refer to exists."""

import re
import textwrap
from pathlib import Path

import pytest

from routerd.config import ConfigError, parse
from routerd.config.entities.schema import ENTITY_TYPES
from shm.statistics.stats import COUNTERS

ROOT = Path(__file__).parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
INTERNAL = ("core.md", "memory-layout.md", "changelog.md")  # numbers have the code's names there


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def anchors(page: Path) -> set[str]:
    """What a link into the page may name: its headings as GitHub and most viewers spell them."""
    headings = re.findall(r"(?m)^#+ (.+)$", text(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file, and a heading in it where it says so."""
    dead = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert not dead


def test_every_page_is_reachable_from_the_readme() -> None:
    """A page that nothing links to is not found by who needs it."""
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page.is_dir():
            page = page / "README.md"
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        found = re.findall(r"\]\((?!https?:)([^)\s#]+)", text(page))
        waiting += [(page.parent / path).resolve() for path in found]
    assert set(PAGES) <= seen


def test_knobs_are_attributes() -> None:
    """The headings of the page about tuning name attributes that can be set."""
    known = {attribute for type_ in ENTITY_TYPES for attribute in type_.attributes}
    headings = re.findall(r"(?m)^## (.*`.*)$", text(ROOT / "docs" / "tuning.md"))
    knobs = {knob for heading in headings for knob in re.findall(r"`(\w+)`", heading)}
    assert "busyPoll" in knobs
    assert knobs <= known


# Files, and what stands on the reader's machine.
ELSEWHERE = re.compile(r"cannot be read|no environment variable|add a section sslProfile")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_configurations_can_be_copied(page: Path) -> None:
    """Every block that looks like a configuration is one, as it is printed."""
    blocks = re.findall(r"(?ms)^```(?:conf[^\n]*)?\n(.*?)^```|((?:^    [^\n]*\n)+)", text(page))
    mistakes = []
    for block in (textwrap.dedent(fenced or indented) for fenced, indented in blocks):
        if re.match(r"\w+ *\{", block):
            try:
                parse(block, page.name)
            except ConfigError as error:
                mistakes += [str(one) for one in error.mistakes if not ELSEWHERE.search(one.text)]
    assert not mistakes


def test_counters_have_one_name() -> None:
    """An operator finds each counter that a page names in `/metrics`, and no other name of it."""
    served = set(re.findall(r"(?m)^\| `(routerd_\w+)`", text(ROOT / "docs" / "metrics.md")))
    own = {name for name in COUNTERS if "_" in name}
    pages = [page for page in PAGES if page.name not in INTERNAL and page.parent.name != "decisions"]
    words = [(page.name, word) for page in pages for word in re.findall(r"`(\w+)`", text(page))]
    assert not [place for place in words if place[1] in own]
    assert not [place for place in words if place[1].startswith("routerd_") and place[1] not in served]


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_the_page_about_management_names_all_that_can_be_changed(operation: str) -> None:
    """Every type of entity that has the operation, and every attribute where these are few."""
    rows = [row for row in text(ROOT / "docs" / "management.md").splitlines() if f"| {operation} | " in row]
    named = {name for row in rows for name in re.findall(r"`([\w.*]+)`", row)}
    for type_ in ENTITY_TYPES:
        if operation in type_.operations:
            assert named & {type_.short_name, type_.name, "router.config.*" if "config." in type_.name else ""}
            some = [one.name for one in type_.attributes.values() if one.update]
            if operation == "UPDATE" and len(some) < len(type_.attributes) // 3:
                assert set(some) <= named, type_.name


def test_module_paths_in_the_pages_exist() -> None:
    """Files and folders that a page names in backticks are there."""
    named = {
        (page, name)
        for page in PAGES
        for name in re.findall(
            r"`((?:shm|core|workers|routerd|pipeline|bench|tests)/(?:[\w/]+\.\w+|[\w/]*/)?)`", text(page)
        )
    }
    assert named
    assert [f"{page.name}: {name}" for page, name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_page_about_conformance_names_tests_that_exist() -> None:
    """Each rule has its test, and each test in the folder its rule."""
    named = set(re.findall(r"`((?:[\w/]+/)?test_\w+\.py)::(test_\w+)`", text(ROOT / "docs" / "conformance.md")))
    folder = ROOT / "tests" / "system" / "conformance"
    there = {
        (file.name if file.parent == folder else str(file.relative_to(ROOT / "tests")), name)
        for file in [*folder.glob("test_*.py"), *(ROOT / "tests" / path for path, _ in named if "/" in path)]
        if file.exists()
        for name in re.findall(r"(?m)^def (test_\w+)", text(file))
    }
    assert named - there == set()
    assert {(path, name) for path, name in there if "/" not in path} - named == set()


def test_each_bound_has_a_test_that_exists() -> None:
    """Each row names its tests; one without a folder stands in that of the test before it."""
    page = text(ROOT / "docs" / "reliability.md").partition("\n## What is bounded\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for row in rows:
        folder, tests = ROOT, re.findall(r"`([\w/]*\btest_\w+\.py)`", row[-1])
        for test in tests:
            folder = (ROOT / test).parent if "/" in test else folder
            assert (folder / Path(test).name).is_file(), f"{row[0]}: {test}"
        assert tests, f"{row[0]}: no test"


def test_a_line_of_the_changelog_is_one_short_sentence() -> None:
    """At most 25 words, on one line, under a heading that says what kind of change it is."""
    page = text(ROOT / "docs" / "changelog.md")
    lines = [line for line in page.partition("\n## ")[2].splitlines()[1:] if line and line[0] != "#"]
    assert [line for line in lines if line[:2] != "- " or len(line.split()) > 26] == []
    kinds = {"Added", "Changed", "Fixed", "Security", "For developers"}
    assert set(re.findall(r"(?m)^### (.+)$", page)) <= kinds
