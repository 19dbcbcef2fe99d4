"""Results of a run by hand, for reports: rows as dictionaries, and what a page shows of them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.output.columns import TABLES
from pipeline.output.directory import RESULTS, Kind
from pipeline.output.generations import Generation, begin
from tests.support.pipeline.output import claim, part

START = datetime(2026, 1, 5, tzinfo=UTC)
ARROW = {
    "string": pa.string(), "bool": pa.bool_(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "double": pa.float64(), "timestamp": pa.timestamp("us", "UTC"), "strings": pa.list_(pa.string()),
}  # fmt: skip
COUNTS = (pa.int64(), pa.int32(), pa.int16())

Row = dict[str, Any]


def made(
    directory: Path, tables: Mapping[str, Iterable[Row]], hours: float = 48, *, kind: Kind = RESULTS, **said: Any
) -> Generation:
    """A run over so many hours from `START`: tables that are not given have no rows, columns are 0 or null."""
    run = begin(claim(directory, directory.parent / "log", kind))
    for name, table in TABLES.items():
        schema = pa.schema([(column.name, ARROW[column.type]) for column in table.columns])
        rows = list(tables.get(name, ()))
        columns = [_column(field, [row.get(field.name) for row in rows]) for field in schema]
        folder = Path(run.root, name)
        folder.mkdir()
        pq.write_table(pa.table(columns, schema=schema), folder / part(name))
    last = START + timedelta(hours=hours) - timedelta(minutes=1)
    summary = {"files": 1, "lost": 0, "dropped": 0, "skipped": [], "records": 1, "messages": 1, "bytes": 1, "hops": 1}
    times = {"first_minute": f"{START:%F %T}", "last_minute": f"{last:%F %T}", "made": f"{last:%FT%T}+00:00"}
    run.publish({**summary, **times, **said})
    return run


def _column(field: pa.Field, values: list[Any]) -> pa.Array:
    """The values of a column; texts may be octets that are no UTF-8, which a foreign program may have written."""
    if field.type in COUNTS:
        values = [0 if value is None else value for value in values]
    if field.type != pa.string():
        return pa.array(values, field.type)
    octets = [value.encode() if isinstance(value, str) else value for value in values]
    return pa.array(octets, pa.binary()).view(pa.string())


def traffic(at: timedelta, address: bytes | str | None = "a", messages: int = 1, **more: Any) -> Row:
    """A row of the table of that name: all accepted, from R1 to R2, unless said otherwise."""
    row = {"minute": START + at, "origin": "R1", "router_id": "R2", "egress_kind": "normal", "address": address}
    return {**row, "mtype": -1, "messages": messages, "bytes": 10 * messages, "accepted": messages, **more}


def latency(at: timedelta, address: bytes | str | None = "a", bucket: int = 300, messages: int = 1) -> Row:
    """A row of the table of that name."""
    return {"quarter": START + at, "address": address, "mtype": -1, "bucket": bucket, "messages": messages}


def finding(kind: str, first: timedelta, last: timedelta, **more: Any) -> Row:
    """A row of the table of that name."""
    row = {"kind": kind, "first": START + first, "last": START + last, "router_id": "R1", "address": "a", "mtype": -1}
    return {**row, "n": 10, "evidence": "as it was", **more}


class Page(HTMLParser):
    """What a page says: its tables by caption, cell by cell; the texts of all else; the elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.words: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._rows: list[list[str]] = []
        self._caption = ""
        self._in: list[str] = []
        self.feed(text)
        self.close()
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("meta", "rect", "line", "path", "circle"):
            return
        self._in.append(tag)
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        while self._in and self._in.pop() != tag:
            pass
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        if self._in and self._in[-1] in ("td", "th"):
            self._rows[-1][-1] += data
        elif self._in and self._in[-1] == "caption":
            self._caption += data
        elif "style" not in self._in:
            self.words.append(data)

    def table(self, beginning: str) -> list[list[str]]:
        """The rows of the table whose caption begins so, without the heads."""
        return next(rows[1:] for caption, rows in self.tables.items() if caption.startswith(beginning))
