"""The site of the pages has all of them, and no link of theirs leads out of it. `make docs` builds it."""

import json
import posixpath
import re
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace

import pytest

from docs.site import ABOVE, LINK, from_root, loads, not_found_by_search, on_config, place, site_page, target

ROOT = Path(__file__).parents[3]
CONFIGURATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
PAGES = sorted([*ABOVE.values(), *(str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md"))])


def left_out(file: str) -> bool:
    """Whether the configuration leaves a file of docs/ out of the site, by a pattern in the form of a .gitignore."""
    patterns = CONFIGURATION.partition("exclude_docs: |\n")[2].partition("\ntheme:")[0].split()
    assert patterns, "mkdocs.yml names what is left out"
    here = [one.removeprefix("/") for one in patterns if one.startswith("/")]
    anywhere = [one.removesuffix("/") for one in patterns if not one.startswith("/")]
    parts = file.split("/")
    return any(fnmatchcase(file, one) and len(parts) == 1 for one in here) or any(
        fnmatchcase(part, one) for one in anywhere for part in parts
    )


def test_what_is_left_out() -> None:
    """The programs that make the site, but not an example that a page shows."""
    assert left_out("site.py")
    assert left_out("__pycache__/site.cpython-311.pyc")
    assert not left_out("examples/airflow_dag.py")


def test_the_navigation_has_every_page_once() -> None:
    """A page that is missing there is one that nobody finds."""
    named = re.findall(r"(?m)^ +- (?:[^:\n]+: )?(\S+\.md)$", CONFIGURATION.partition("\nnav:\n")[2])
    assert sorted(named) == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_something_in_the_site(page: str) -> None:
    """Also those that lead above docs/ in the repository."""
    text = (ROOT / place(page)).read_text(encoding="utf-8")
    others = (str(one.relative_to(ROOT / "docs")) for one in (ROOT / "docs").rglob("*.*"))
    made = {*PAGES, "LICENSE", *(one for one in others if not left_out(one))}
    links = [link[2] for link in LINK.finditer(re.sub(r"(?ms)^```.*?^```$|`[^`\n]*`", "", text))]
    found = [posixpath.normpath(posixpath.join(posixpath.dirname(page), target(page, link))) for link in links]
    assert sorted(set(found) - made) == []


def test_links_and_blocks_are_those_of_the_site() -> None:
    assert site_page("index.md", "[a](docs/decisions/) ![b](docs/processes.svg)") == (
        "[a](decisions/README.md) ![b](processes.svg)"
    )
    assert site_page("tasks/clients.md", "[a](../core.md#credit) [b](#here) [c](../../README.md)") == (
        "[a](../core.md#credit) [b](#here) [c](../index.md)"
    )
    assert site_page("core.md", "[a](../shm/memory) [b](https://example.com/x)") == (
        "[a](../shm/memory) [b](https://example.com/x)"
    )
    assert site_page("core.md", "```conf a.conf\n```\n```sh elsewhere: it is long\n```\n") == (
        '```conf title="a.conf"\n```\n```sh\n```\n'
    )


def test_names_of_files_become_headings() -> None:
    """A reader of the site knows pages by their headings; a reader of the repository knows files."""
    assert site_page("tasks/edge-router.md", "see [operations.md](../operations.md#limits) and [this](../core.md)") == (
        "see [Operations](../operations.md#limits) and [this](../core.md)"
    )
    assert (
        site_page("core.md", "[alerts.yml](alerts.yml) [gone.md](gone.md)")
        == "[alerts.yml](alerts.yml) [gone.md](gone.md)"
    )


def test_the_search_finds_every_page(tmp_path: Path) -> None:
    """`make docs` refuses a site whose index lacks a page; its search is on, and no cache of Python's is in it."""
    for name in ("index.html", "core.html", "tasks/clients.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert not_found_by_search(tmp_path) == ["core.html", "tasks/clients.html"]
    (tmp_path / "search").mkdir()
    entries = [{"location": ""}, {"location": "core.html#credit"}]
    (tmp_path / "search" / "search_index.json").write_text(json.dumps({"docs": entries}))
    assert not_found_by_search(tmp_path) == ["tasks/clients.html"]
    assert "\nplugins:\n  - search\n" in CONFIGURATION
    assert "  __pycache__/\n" in CONFIGURATION


def test_no_page_leads_to_a_servers_root() -> None:
    """mkdocs makes a 404.html that would: the site has none."""
    config = SimpleNamespace(theme=SimpleNamespace(static_templates={"404.html", "sitemap.xml", "of-the-theme.html"}))
    on_config(config)
    assert config.theme.static_templates == {"of-the-theme.html"}
    assert from_root("<link href=\"/assets/a.css\"><script src='/a.js'></script>") == [
        'href="/assets/a.css"',
        "src='/a.js'",
    ]
    assert from_root('<a href="../a.html">/usr</a><img src="a.png"><a href="https://example.com/">a</a>') == []


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://example.com/a.js">',
        '<link rel="preconnect" href="//fonts.example.com">',
        "<img alt='x' src='http://example.com/a.png'>",
        '@import "https://example.com/a.css";',
        "body { background: url(https://example.com/a.png) }",
    ],
)
def test_what_loads_from_elsewhere_is_found(text: str) -> None:
    """The site is read where there is no way out, too; a link that somebody clicks is no load."""
    assert loads(text)


def test_what_loads_nothing_is_left_alone() -> None:
    assert not loads('<a href="https://example.com/">a</a><script src="assets/a.js"></script><img src="a.png">')
    assert not loads("body { background: url(data:image/svg+xml;base64,AA==) }")
