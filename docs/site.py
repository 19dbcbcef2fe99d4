"""Hooks of mkdocs that make a site of these pages as they stand: `make docs` (mkdocs.yml has the rest).

The pages are written for whoever reads them in the repository. So links lead from file to file, README.md and others
stand above docs/, and a word behind the fence of a block says what the tests do with it.
"""

import json
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # mkdocs is installed by `make docs` alone
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
ABOVE: Final = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "SECURITY.md": "SECURITY.md"}
WIDE: Final = {"comparison.md"}  # its tables need the room that other pages have for their headings
LINK: Final = re.compile(r"(\]\()(?!\w+:|#)([^)#\s]+)")
NAMED: Final = re.compile(r"\[([\w./-]+\.md)\](?=\(([^)#\s]+))")
FENCE: Final = re.compile(r"(?m)^```(\w+) +(.+)$")
FOR_TESTS: Final = ("elsewhere:", "long:")
EXTERNAL: Final = re.compile(
    r"<(?:script|img|iframe|link|source|video|audio|object|embed)\b[^>]*?\b(?:src|href|data)=[\"']?(?:https?:)?//[^\s>]+"
)
FROM_ROOT: Final = re.compile(r"\b(?:src|href)=[\"']/[^\"']*[\"']")
LOADED: Final = re.compile(r"(?:url\([\"']?|@import [\"'])(?:https?:)?//[^\s)]+")


def place(page: str) -> str:
    """Where a page of the site stands in the repository, such as docs/core.md."""
    above = {made: origin for origin, made in ABOVE.items()}
    return above.get(page, f"docs/{page}")


def target(page: str, link: str) -> str:
    """The path in the site to which a link of the page's file leads, relative to the page."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(place(page)), link))
    if path == "LICENSE":
        made = path
    elif path in ABOVE:
        made = ABOVE[path]
    elif path.startswith("docs/"):
        made = path.removeprefix("docs/") + ("/README.md" if link.endswith("/") else "")
    else:
        return link  # it leads out of the site: mkdocs reports it
    return posixpath.relpath(made, posixpath.dirname(page) or ".")


def site_page(page: str, text: str) -> str:
    """The text of a page with links as the site has them, and with the names of files above their blocks."""
    named = NAMED.sub(lambda link: f"[{heading(page, link[2]) or link[1]}]", text)
    linked = LINK.sub(lambda link: link[1] + target(page, link[2]), named)
    return FENCE.sub(lambda fence: f"```{fence[1]}{_title(fence[2])}", linked)


def heading(page: str, link: str) -> str:
    """The heading of the page to which a link of a page's file leads; "" if it leads to none."""
    file = ROOT / posixpath.normpath(posixpath.join(posixpath.dirname(place(page)), link))
    first = file.read_text(encoding="utf-8").partition("\n")[0] if file.is_file() else ""
    return first.removeprefix("# ") if first.startswith("# ") else ""


def _title(more: str) -> str:
    return "" if more.startswith(FOR_TESTS) else f' title="{more}"'


def loads(text: str) -> list[str]:
    """What a page or a style sheet loads from elsewhere."""
    return [found[0] for pattern in (EXTERNAL, LOADED) for found in pattern.finditer(text)]


def from_root(text: str) -> list[str]:
    """What of a page leads to the root of a server, below which the site may stand."""
    return FROM_ROOT.findall(text)


def not_found_by_search(site: Path) -> list[str]:
    """The pages that the index of the site's search lacks; the search loads it, and nothing from elsewhere."""
    index = site / "search" / "search_index.json"
    entries = json.loads(index.read_text(encoding="utf-8"))["docs"] if index.exists() else []
    known = {entry["location"].partition("#")[0] for entry in entries}
    return sorted({str(page.relative_to(site)) for page in site.rglob("*.html")} - known - {"index.html"})


def on_config(config: "MkDocsConfig") -> None:
    """Make no 404.html, whose links could only lead from a server's root, and no map of addresses that nobody knows."""
    config.theme.static_templates -= {"404.html", "sitemap.xml"}


def on_files(files: "Files", *, config: "MkDocsConfig") -> "Files":
    """Take in what stands above docs/; leave out the map's template, which mkdocs would copy as it stands."""
    from mkdocs.structure.files import File  # noqa: PLC0415  only `make docs` installs it

    for origin, made in {**ABOVE, "LICENSE": "LICENSE"}.items():
        files.append(File.generated(config, made, content=(ROOT / origin).read_text(encoding="utf-8")))
    if template := files.get_file_from_path("sitemap.xml"):
        files.remove(template)
    return files


def on_page_markdown(markdown: str, *, page: "Page", **_: object) -> str:
    """Give mkdocs the page as the site has it."""
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["toc"]
    return site_page(page.file.src_uri, markdown)


def on_post_build(*, config: "MkDocsConfig") -> None:
    """Refuse a site with pages that its search does not find, that load from elsewhere, or lead to a server's root.

    It is read where there is no way out, too, and where there is no server.
    """
    from mkdocs.exceptions import PluginError  # noqa: PLC0415  only `make docs` installs it

    made = [file for file in Path(config.site_dir).rglob("*") if file.suffix in (".html", ".css")]
    texts = [(file, file.read_text(encoding="utf-8")) for file in made]
    found = [f"{file}: {one}" for file, text in texts for one in [*loads(text), *from_root(text)]]
    if found:
        raise PluginError("pages load from elsewhere, or lead to a server's root:\n" + "\n".join(found))
    if missing := not_found_by_search(Path(config.site_dir)):
        raise PluginError("the search does not find:\n" + "\n".join(missing))
