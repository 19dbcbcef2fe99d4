"""The columns in docs/flow-log.md, rendered from the schema.

`python -m routerd.recorder.reference docs/flow-log.md` writes them anew between two markers.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from shm.contract.flow import COLUMNS, METADATA, TYPES

BEGIN = "<!-- columns: begin -->"
END = "<!-- columns: end -->"


def insert(document: str) -> str:
    """The document with fresh tables between its markers. Raises ValueError when it has none."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no {BEGIN} … {END}; put both where the columns belong")
    return "\n".join([before + BEGIN, "", *_lines(), END]) + after


def _lines() -> Iterator[str]:
    yield "| column | type | null | unit | meaning |"
    yield "|---|---|---|---|---|"
    for column in COLUMNS:
        null = "yes" if column.nullable else "never"
        kind = "string" if column.type == "dictionary" else TYPES[column.type]
        yield f"| `{column.name}` | {kind} | {null} | {column.unit or '-'} | {column.meaning} |"
    yield ""
    yield "Key-value metadata of a file:"
    yield ""
    yield "| key | value |"
    yield "|---|---|"
    yield from (f"| `{key}` | {meaning} |" for key, meaning in METADATA.items())
    yield ""


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(insert(path.read_text(encoding="utf-8")), encoding="utf-8")
