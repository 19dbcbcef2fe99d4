"""From records in shared memory to Arrow tables: numbers are columns already, ids become texts."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from shm.flow import ADDRESS_CLASSES, COLUMNS, KINDS, LINK_KINDS, OUTCOMES
from shm.native import OWNER_KNOWN, TRACE_KNOWN, TRANSACTION_KNOWN, FlowColumns, FlowReader

ROOM: Final = 1 << 16  # rows of a row group; while it is written the ring fills, which has twice the room
_NAMES: Final = ("address", "path", "meid", "condition", "onward", "back")
_LINKS: Final = ("from", "to")
_WIDTHS: Final = {
    "int64": pa.int64(), "int32": pa.int32(), "uint32": pa.uint32(), "int16": pa.int16(), "int8": pa.int8(),
}  # fmt: skip
_ARROW: Final = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "binary": pa.binary(),
    "trace": pa.binary(16),
    "span": pa.binary(8),
    "histogram": pa.list_(pa.struct([pa.field("b", pa.int16()), pa.field("n", pa.int64())])),
}
_TYPES: Final = {
    **dict.fromkeys(
        ("ts", "seq", "bytes", "latency", "settle", "queue", "starved", "message", "body", "delivery"),
        "int64",
    ),
    **dict.fromkeys((*_LINKS, *_NAMES), "uint32"),
    **dict.fromkeys(("mtype", "sub_id", "weight", "pieces"), "int32"),
    **dict.fromkeys(("worker", "hops", "deliveries"), "int16"),
    **dict.fromkeys(("kind", "outcome", "treatment", "priority", "settled", "known"), "int8"),
}

_OCTETS: Final = (
    (TRACE_KNOWN, (("trace", "trace_id", 16), ("span", "span_id", 8))),
    (TRANSACTION_KNOWN, (("transaction", "xact_id", 32),)),
)

SCHEMA: Final = pa.schema([pa.field(c.name, _ARROW[c.type], nullable=c.nullable) for c in COLUMNS])


class Link(NamedTuple):
    """What a row says of a link."""

    connection: int
    number: int
    kind: str
    container: str | None


class Rows:
    """Records read and not yet written, of one core. The names they refer to are looked up as they are read:
    later they may be gone."""

    def __init__(self, reader: FlowReader, room: int = ROOM) -> None:
        self._reader = reader
        self._columns = FlowColumns(room)
        self._texts: dict[int, str | None] = {0: None}
        self._links: dict[int, Link | None] = {0: None}

    def __len__(self) -> int:
        return self._columns.count

    @property
    def full(self) -> bool:
        return self._columns.count == self._columns.room

    def read(self, offset: int) -> int:
        """Take what there is and has room; how many records. ``offset``: time of day at monotonic 0, ns."""
        first = self._columns.count
        read = self._reader.read(self._columns, offset)
        count = self._columns.count - first
        for name in _LINKS if count else ():
            for one in self._fresh(name, first, count, self._links):
                self._links[one] = self._link(one)
        for name in _NAMES if count else ():
            for one in self._fresh(name, first, count, self._texts):
                self._texts[one] = _text(self._reader.name(one))
        return read

    def take(self, router: str, boot: str) -> "pa.Table":
        """Everything as a table of the schema; nothing is left here but names."""
        count = self._columns.count
        same = {"router_id": router, "boot_id": boot}
        columns = self._derived(count)
        arrays = [
            columns[c.name]
            if c.name in columns
            else _same(same[c.name], count)
            if c.name in same
            else pa.nulls(count, _ARROW[c.type])
            for c in COLUMNS
        ]
        table = pa.Table.from_arrays(arrays, schema=SCHEMA)
        self._columns = FlowColumns(self._columns.room)
        return table

    def forget(self) -> None:
        """The names of what is written; they are looked up again."""
        self._texts = {0: None}
        self._links = {0: None}

    def _derived(self, count: int) -> dict[str, "pa.Array"]:
        column = self._column
        source, target = (_Coded(column(name, count)) for name in _LINKS)
        sent, received = self._links_of(source), self._links_of(target)
        drop = pc.equal(column("kind", count), KINDS.index("drop"))
        to = target.numbers([link.number if link else None for link in received], pa.int64())
        peer = pc.if_else(
            pc.and_(drop, pc.is_null(to)),
            source.texts([link.container if link else None for link in sent]).cast(pa.string()),
            target.texts([link.container if link else None for link in received]).cast(pa.string()),
        )
        names = {name: _Coded(column(name, count)) for name in _NAMES}
        texts = {
            name: coded.texts([self._texts.get(one) for one in coded.distinct])
            for name, coded in names.items()
        }
        return {
            "kind": _enum(column("kind", count), KINDS),
            "ts": column("ts", count).view(pa.timestamp("us", tz="UTC")),
            "worker_id": column("worker", count),
            "seq": column("seq", count),
            "ingress_conn_id": source.numbers([link.connection if link else 0 for link in sent], pa.int64()),
            "ingress_link_id": source.numbers([link.number if link else 0 for link in sent], pa.int64()),
            "egress_conn_id": target.numbers(
                [link.connection if link else None for link in received], pa.int64()
            ),
            "egress_link_id": to,
            "ingress_kind": source.texts([link.kind if link else None for link in sent]),
            "egress_kind": target.texts([link.kind if link else None for link in received]),
            "peer_container": peer.dictionary_encode(),
            "address": texts["address"],
            "address_class": _enum(column("treatment", count), ADDRESS_CLASSES),
            "priority": column("priority", count),
            "mtype": column("mtype", count),
            "sub_id": column("sub_id", count),
            "meid": texts["meid"],
            "size_bytes": column("bytes", count),
            "n_deliveries": pa.repeat(pa.scalar(1, pa.int64()), count),
            "latency_ns": _known(column("latency", count)),
            "settle_ns": _known(column("settle", count)),
            "queue_ns": _known(column("queue", count)),
            "credit_wait_ns": _known(column("starved", count)),
            "outcome": _enum(column("outcome", count), OUTCOMES),
            "error_type": texts["condition"],
            "settled": column("settled", count).cast(pa.bool_()),
            "hops": column("hops", count),
            "path_id": names["path"].numbers(
                [one & 0x7FFFFFFF or None for one in names["path"].distinct], pa.int32()
            ),
            "path": texts["path"],
            "sample_weight": column("weight", count),
            "msg_id_hash": _known(column("message", count)),
            "fragment_count": column("pieces", count),
            "body_bytes": _known(column("body", count)),
            "redelivery": _known(column("deliveries", count)),
            "onward_route": texts["onward"],
            "return_route": texts["back"],
            "message_number": column("delivery", count),
            "by_meid": pc.if_else(
                pc.greater_equal(column("mtype", count), 0),
                _has(column("known", count), OWNER_KNOWN),
                pa.scalar(None, pa.bool_()),
            ),
            **self._octets(count),
        }

    def _octets(self, count: int) -> dict[str, "pa.Array"]:
        """What few records have, and most files none of."""
        known = self._column("known", count)
        found: dict[str, pa.Array] = {}
        for mask, names in _OCTETS:
            present = _has(known, mask)
            if not pc.any(present).as_py():
                continue
            for buffer, name, size in names:
                data = pa.py_buffer(self._columns.buffers[buffer])
                whole = pa.Array.from_buffers(pa.binary(size), count, [None, data])
                found[name] = pc.if_else(present, whole, pa.scalar(None, pa.binary(size)))
        if "xact_id" in found:  # zeros behind it are none of it
            trimmed = [one and one.rstrip(b"\0") for one in found["xact_id"].to_pylist()]
            found["xact_id"] = pa.array(trimmed, pa.binary())
        return found

    def sequences(self) -> dict[str, list[int]]:
        """By worker, the first and the last number of what is here."""
        count = self._columns.count
        table = pa.table({"worker": self._column("worker", count), "seq": self._column("seq", count)})
        found = table.group_by("worker").aggregate([("seq", "min"), ("seq", "max")]).to_pylist()
        return {str(row["worker"]): [row["seq_min"], row["seq_max"]] for row in found}

    def _column(self, name: str, count: int, first: int = 0) -> "pa.Array":
        buffer = pa.py_buffer(self._columns.buffers[name])
        return pa.Array.from_buffers(_WIDTHS[_TYPES[name]], count, [None, buffer], offset=first)

    def _fresh(self, name: str, first: int, count: int, known: dict[int, Any]) -> Iterable[int]:
        return [one for one in self._column(name, count, first).unique().to_pylist() if one not in known]

    def _link(self, number: int) -> Link | None:
        found = self._reader.link(number)
        if found is None:
            return None
        connection, identity, container, kind = found
        return Link(connection, identity, LINK_KINDS[kind], _text(self._reader.name(container)))

    def _links_of(self, coded: "_Coded") -> list[Link | None]:
        return [self._links.get(one) for one in coded.distinct]


class _Coded:
    """A column of ids as places in a list of the distinct ones: what is found for those is found for all."""

    def __init__(self, column: "pa.Array") -> None:
        encoded = column.dictionary_encode()
        self.distinct: list[int] = encoded.dictionary.to_pylist()
        self._indices = encoded.indices

    def numbers(self, values: list[Any], kind: "pa.DataType") -> "pa.Array":
        return pa.array(values, kind).take(self._indices)

    def texts(self, values: list[str | None]) -> "pa.DictionaryArray":
        texts = list(dict.fromkeys(value for value in values if value is not None))
        places = {text: place for place, text in enumerate(texts)}
        moved = self.numbers([None if value is None else places[value] for value in values], pa.int32())
        return pa.DictionaryArray.from_arrays(moved, pa.array(texts, pa.string()))


def _enum(column: "pa.Array", names: tuple[str, ...]) -> "pa.DictionaryArray":
    """Places in a tuple of names; what lies behind its end is null."""
    indices = column.cast(pa.int32())
    known = pc.if_else(pc.less(indices, len(names)), indices, pa.scalar(None, pa.int32()))
    return pa.DictionaryArray.from_arrays(known, pa.array(names))


def _has(known: "pa.Array", mask: int) -> "pa.Array":
    return pc.not_equal(pc.bit_wise_and(known, pa.scalar(mask, pa.int8())), 0)


def _known(column: "pa.Array") -> "pa.Array":
    return pc.if_else(pc.less(column, 0), pa.scalar(None, column.type), column)


def _same(text: str, count: int) -> "pa.DictionaryArray":
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([text]))


def _text(text: bytes | None) -> str | None:
    return text.decode("utf-8", "replace") if text else None
