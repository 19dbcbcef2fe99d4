"""The tables of a run, as a report reads them: without Spark, a part at a time, however large a table is.

Texts come from clients. At this border they become characters that a page can show: octets that are no UTF-8, and
characters that nobody sees, are written as escapes, and long texts are cut in the middle.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero, dataset

from pipeline.errors import PipelineError
from pipeline.output.generations import Generation
from pipeline.quality import damaged, table_differs
from shm.contract.flow_log.schema import ROUTER_KINDS

LONGEST: Final = 160  # characters of a text
OUTER: Final = ~pc.field("egress_kind").isin(ROUTER_KINDS)  # not on to another router; also null, nowhere
_ZERO: Final = b"\0"

Row = dict[str, Any]


class Name(NamedTuple):
    """What messages were sent to: an address, a message type of a route table (-1: none), or both."""

    address: bytes | None
    mtype: int

    def __str__(self) -> str:
        return named(None if self.address is None else seen(self.address), self.mtype)

    @property
    def key(self) -> bytes:
        """The value of `NAME` in rows of this name."""
        known = b"0" if self.address is None else b"1"
        return _ZERO.join((known, self.address or b"", str(self.mtype).encode()))


# One value for each name: two columns as one, and no address is not the empty one.
NAME: Final = pc.binary_join_element_wise(
    pc.if_else(pc.field("address").is_valid(), b"1", b"0"),
    pc.coalesce(pc.field("address").cast(pa.binary()), b""),
    pc.field("mtype").cast(pa.string()).cast(pa.binary()),
    _ZERO,
)


def named(address: str | None, mtype: int) -> str:
    """Return a name as a reader knows it."""
    names = [] if address is None else [address or "the empty address"]
    if mtype >= 0:
        names.append(f"message type {mtype}")
    return ", ".join(names) or "no address"


def seen(raw: bytes) -> str:
    """Return a text of a client as characters that a reader sees, at most `LONGEST`."""
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode()
        for one in raw[: 4 * LONGEST].decode("utf-8", "backslashreplace")
    )
    if len(raw) > 4 * LONGEST:
        shown += "…"
    half = LONGEST // 2
    return shown if len(shown) <= LONGEST else f"{shown[:half]}…{shown[1 - half :]}"


class Tables:
    """The tables of one run, or of a day and the one ``before`` as if they were of one.

    Every method raises ``PipelineError`` for a table that is missing, damaged, or not as declared.
    """

    def __init__(self, found: Generation, before: Generation | None = None) -> None:
        self._runs = [one for one in (before, found) if one is not None]

    def rows(self, name: str, where: Any = None, order: Mapping[str, str] | None = None, most: int = 0) -> list[Row]:
        """Return rows with texts that can be shown, in an order (`ascending` or `descending`), at most so many."""
        return shown(self.read(name, where, order, most))

    def read(self, name: str, where: Any = None, order: Mapping[str, str] | None = None, most: int = 0) -> pa.Table:
        """Return rows as they are in the table."""
        with self._readable(name):
            read = self._data(name).to_table(filter=where)
        if order:
            read = read.take(pc.sort_indices(read, sort_keys=list(order.items())))
        return read.slice(0, most) if most else read

    def count(self, name: str, where: Any = None) -> int:
        """Return how many rows a table has."""
        with self._readable(name):
            return int(self._data(name).count_rows(filter=where))

    def summed(self, name: str, keys: Mapping[str, Any], sums: Mapping[str, Any], where: Any = None) -> pa.Table:
        """Return the sums of expressions by the expressions ``keys``; without keys one row."""
        add = [(one, "hash_sum" if keys else "sum", None, one) for one in sums]
        total = acero.Declaration("aggregate", acero.AggregateNodeOptions(add, keys=list(keys)))
        with self._readable(name):
            reader = self._data(name).scanner(columns={**keys, **sums}, filter=where).to_reader()
            source = acero.Declaration("record_batch_reader_source", acero.RecordBatchReaderSourceNodeOptions(reader))
            return acero.Declaration.from_sequence([source, total]).to_table()

    @contextmanager
    def _readable(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            where = " or ".join(f"{found.root}/{name}" for found in self._runs)
            raise PipelineError(f"{damaged(where, error)}; `routerd pipeline run` makes it anew") from error

    def _data(self, name: str) -> dataset.Dataset:
        files = []
        for found in self._runs:
            if not (there := found.files(name)):
                raise found.lacks(name)
            if why := table_differs(found, name):
                raise found.strange(name, why)
            files += there
        return dataset.dataset(files, format="parquet", filesystem=self._runs[-1].output.files)


def shown(table: pa.Table) -> list[Row]:
    """Return rows as dictionaries; texts are `seen`, and times know their zone."""
    columns = {field.name: _values(table[field.name]) for field in table.schema}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_string(column.type):
        return [None if one is None else seen(one) for one in column.cast(pa.binary()).to_pylist()]
    if pa.types.is_list(column.type):
        return [None] * len(column)  # no list is shown
    return list(column.to_pylist())


def names(table: pa.Table) -> list[Name]:
    """Return the names that the columns ``address`` and ``mtype`` are."""
    addresses = table["address"].cast(pa.binary()).to_pylist()
    return [Name(*pair) for pair in zip(addresses, table["mtype"].to_pylist(), strict=True)]


def seconds(column: str) -> Any:
    """Return the expression of a column of times as seconds since 1970."""
    return pc.divide(pc.field(column).cast(pa.int64()), 1_000_000)
