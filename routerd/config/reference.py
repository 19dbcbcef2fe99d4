"""The reference part of docs/configuration.md, rendered from the entity declarations.

`python -m routerd.config.reference docs/configuration.md` writes it anew between its two markers.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from routerd.config.attribute import Attribute
from routerd.config.schema import COMMON, ENTITY_TYPES, USER_GROUP, EntityType
from routerd.config.support import UNSERVED_ATTRIBUTES, UNSERVED_ENTITIES
from routerd.config.values import expected

BEGIN = "<!-- reference: begin -->"
END = "<!-- reference: end -->"


def render() -> str:
    """One section per entity, one table row per attribute that can be set."""
    return "\n".join(line for type_ in (*ENTITY_TYPES, USER_GROUP) for line in _entity(type_))


def insert(document: str) -> str:
    """The document with a fresh reference between its markers. Raises ValueError when it has none."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no {BEGIN} … {END}; put both where the reference belongs")
    return f"{before}{BEGIN}\n\n{render()}\n{END}{after}"


def _entity(type_: EntityType) -> Iterator[str]:
    yield f"### {type_.short_name}"
    yield ""
    once = " There is one; it may be left out." if type_.singleton else ""
    yield f"{type_.description}{once}"
    if effect := UNSERVED_ENTITIES.get(type_.name):
        yield f"\n*Not served by this version: {effect}.*"
    yield ""
    yield "| attribute | takes | default | meaning |"
    yield "|---|---|---|---|"
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
        notes.append(f"*Not served by this version: {effect}.*")
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


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(insert(path.read_text(encoding="utf-8")), encoding="utf-8")
