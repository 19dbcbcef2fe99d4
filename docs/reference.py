"""The tables of these pages that are made from declarations, each between two marks in its page.

`python -m docs.reference` writes all of them anew, and the dashboards.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from docs import dashboards
from pipeline.output import columns as results
from routerd.config.entities.attribute import Attribute
from routerd.config.entities.schema import COMMON, ENTITY_TYPES, USER_GROUP, EntityType
from routerd.config.rules.support import UNSERVED_ATTRIBUTES, UNSERVED_ENTITIES
from routerd.config.rules.values import expected
from routerd.exporter.catalogue import catalogue
from shm.contract.flow_log.arrow import SCHEMA
from shm.contract.flow_log.schema import COLUMNS, METADATA

HERE: Final = Path(__file__).parent


def written(page: str, document: str) -> str:
    """The text of a page with a fresh table between its marks. Raises ValueError when it has none."""
    mark, lines = PAGES[page]
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, one, rest = document.partition(begin)
    _, other, after = rest.partition(end)
    if not one or not other:
        raise ValueError(f"{page} has no {begin} … {end}; put both where the table belongs")
    text = "\n".join(lines()).strip()
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def _entities() -> Iterator[str]:
    """One section per entity, one table row per attribute that can be set."""
    for type_ in (*ENTITY_TYPES, USER_GROUP):
        once = " There is one; it may be left out." if type_.singleton else ""
        yield from (f"### {type_.short_name}", "", f"{type_.description}{once}")
        if effect := UNSERVED_ENTITIES.get(type_.name):
            yield f"\n*Not supported by this version: {effect}.*"
        yield from ("", "| attribute | takes | default | meaning |", "|---|---|---|---|")
        for attribute in type_.attributes.values():
            if attribute.create and attribute not in COMMON:
                yield f"| {' | '.join(_cells(type_, attribute))} |"
        yield ""


def _cells(type_: EntityType, attribute: Attribute) -> Iterator[str]:
    notes = [attribute.description]
    if attribute.old_names:
        notes.append(f"Old name: {', '.join(attribute.old_names)}.")
    if attribute.deprecated:
        notes.append("Deprecated.")
    if effect := UNSERVED_ATTRIBUTES.get(type_.entity, {}).get(attribute.name):
        notes.append(f"*Not supported by this version: {effect}.*")
    for cell in (f"`{attribute.name}`", expected(attribute), _default(attribute), " ".join(notes)):
        yield cell.replace("|", "\\|")


def _default(attribute: Attribute) -> str:
    if attribute.required:
        return "**required**"
    if attribute.default_text:
        return attribute.default_text
    if isinstance(attribute.default, bool):
        return "yes" if attribute.default else "no"
    return "-" if attribute.default in (None, "", ()) else str(attribute.default)


def _metrics() -> Iterator[str]:
    yield from ("| metric | type | labels | meaning |", "|---|---|---|---|")
    for metric in catalogue():
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
        yield f"| `{metric.shown}` | {metric.kind} | {labels} | {metric.help} |"


def _columns() -> Iterator[str]:
    yield from ("| column | type | null | unit | meaning |", "|---|---|---|---|---|")
    for column in COLUMNS:
        null = "yes" if column.nullable else "never"
        kind = "string" if column.type == "dictionary" else SCHEMA.field(column.name).type
        yield f"| `{column.name}` | {kind} | {null} | {column.unit or '-'} | {column.meaning} |"
    yield from ("", "Key-value metadata of a file:", "", "| key | value |", "|---|---|")
    yield from (f"| `{key}` | {meaning} |" for key, meaning in METADATA.items())


def _results() -> Iterator[str]:
    """One section per table of results, one table row per column."""
    yield f"The schema is `{results.VERSION}`."
    for table in results.TABLES.values():
        yield from ("", f"### `{table.name}`", "", f"One row for each {table.row}.", "")
        yield from ("| column | type | unit | meaning |", "|---|---|---|---|")
        for column in table.columns:
            kind = {"strings": "list of strings"}.get(column.type, column.type)
            yield f"| `{column.name}` | {kind} | {column.unit or '-'} | {column.meaning} |"


PAGES: Final[dict[str, tuple[str, Callable[[], Iterator[str]]]]] = {
    "configuration.md": ("reference", _entities),
    "metrics.md": ("metrics", _metrics),
    "flow-log.md": ("columns", _columns),
    "pipeline.md": ("results", _results),
}

if __name__ == "__main__":
    for name in PAGES:
        file = HERE / name
        file.write_text(written(name, file.read_text(encoding="utf-8")), encoding="utf-8")
    dashboards.write()
