"""The table of docs/metrics.md, rendered from the catalogue.

`python -m routerd.exporter.reference docs/metrics.md` writes it anew between its two markers.
"""

import sys
from pathlib import Path

from routerd.exporter.catalogue import catalogue

BEGIN = "<!-- metrics: begin -->"
END = "<!-- metrics: end -->"


def render() -> str:
    """One row per metric."""
    rows = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for metric in catalogue():
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "-"
        rows.append(f"| `{metric.shown}` | {metric.kind} | {labels} | {metric.help} |")
    return "\n".join(rows)


def insert(document: str) -> str:
    """The document with a fresh table between its markers. Raises ValueError when it has none."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the document has no {BEGIN} … {END}; put both where the table belongs")
    return f"{before}{BEGIN}\n\n{render()}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(insert(path.read_text(encoding="utf-8")), encoding="utf-8")
