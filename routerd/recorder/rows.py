"""Turns records in shared memory into Arrow tables: numbers are columns already, ids become texts."""

from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from shm.contract.flow_log.arrow import SCHEMA
from shm.contract.flow_log.schema import ADDRESS_CLASSES, KINDS, LINK_KINDS, OUTCOMES, ROUTE_STATES
from shm.native import OWNER_KNOWN, TRACE_KNOWN, TRANSACTION_KNOWN, FlowColumns, FlowReader

ROOM: Final = 1 << 16  # rows of a row group; the ring holds twice as many, as it fills during a write
_NAMES: Final = ("address", "path", "meid", "condition", "onward", "back")
_LINKS: Final = ("from", "to")
_INTEGERS: Final = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}  # by size
_OCTETS: Final = (
    (TRACE_KNOWN, (("trace", "trace_id", 16), ("span", "span_id", 8))),
    (TRANSACTION_KNOWN, (("transaction", "xact_id", 32),)),
)


class Link(NamedTuple):
    """The columns that a row takes from its link."""

    connection: int
    number: int
    kind: str
    container: str | None
    user: str | None
    host: str | None


class Rows:
    """Records of one core that are read and not yet written.

    Their names are looked up when they are read, as the core may reuse an id later.
    """

    def __init__(self, reader: FlowReader, room: int = ROOM, *, further: bool = True) -> None:
        self._reader = reader
        self._further = further  # the records say whether they are of a further copy
        self._columns = FlowColumns(room)
        self._forget()

    def _forget(self) -> None:
        self._texts: dict[int, str | None] = {0: None}
        self._links: dict[int, Link | None] = {0: None}
        self._looked = dict.fromkeys((*_NAMES, *_LINKS), 0)  # the number of ids looked up in each column

    def __len__(self) -> int:
        return self._columns.count

    @property
    def full(self) -> bool:
        return self._columns.count == self._columns.room

    def read(self, offset: int) -> int:
        """Read records that have room; return how many. ``offset``: the time of day at monotonic 0, in ns."""
        read = self._reader.read(self._columns, offset)
        for name in _LINKS if read else ():
            for one in self._fresh(name, self._links):
                self._links[one] = self._link(one)
        for name in _NAMES if read else ():
            for one in self._fresh(name, self._texts):
                self._named(one)
        return read

    def table(self, router: str, boot: str) -> "pa.Table":
        """Return all records as a table of the schema; it shares memory and is valid until ``clear``."""
        count = self._columns.count
        same = {"router_id": router, "boot_id": boot}
        columns = self._derived(count)
        arrays = [
            columns[c.name]
            if c.name in columns
            else _same(same[c.name], count)
            if c.name in same
            else pa.nulls(count, c.type)
            for c in SCHEMA
        ]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)

    def clear(self) -> None:
        """Drop all records; names are looked up again."""
        self._columns.clear()
        self._forget()

    def _derived(self, count: int) -> dict[str, "pa.Array"]:
        column = self._column
        source, target = (_Coded(column(name, count)) for name in _LINKS)
        sent, received = ([self._links.get(one) for one in self._columns.ids(name)] for name in _LINKS)
        to = target.numbers([link.number if link else None for link in received], pa.int64())
        nobody = pc.and_(pc.equal(column("kind", count), KINDS.index("drop")), pc.is_null(to))
        names = {name: _Coded(column(name, count)) for name in _NAMES}
        texts = {
            name: coded.texts([self._texts.get(one) for one in self._columns.ids(name)])
            for name, coded in names.items()
        }
        return {
            "kind": _enum(column("kind", count), KINDS),
            "ts": column("ts", count).view(pa.timestamp("us", tz="UTC")),
            "worker_id": column("worker", count),
            "seq": column("seq", count),
            "ingress_conn_id": source.numbers([link.connection if link else 0 for link in sent], pa.int64()),
            "ingress_link_id": source.numbers([link.number if link else 0 for link in sent], pa.int64()),
            "egress_conn_id": target.numbers([link.connection if link else None for link in received], pa.int64()),
            "egress_link_id": to,
            "ingress_kind": source.texts([link.kind if link else None for link in sent]),
            "ingress_container": source.texts([link.container if link else None for link in sent]),
            "ingress_user": source.texts([link.user if link else None for link in sent]),
            "ingress_host": source.texts([link.host if link else None for link in sent]),
            "egress_user": target.texts([link.user if link else None for link in received]),
            "egress_host": target.texts([link.host if link else None for link in received]),
            "egress_kind": target.texts([link.kind if link else None for link in received]),
            "peer_container": source.where(nobody, target, len(received)).texts(
                [link.container if link else None for link in received + sent]
            ),
            "address": texts["address"],
            "address_class": _enum(_below(column("treatment", count), len(ADDRESS_CLASSES)), ADDRESS_CLASSES),
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
            "hops": self._hops(column("hops", count), texts["path"], count),
            "path_id": names["path"].numbers(
                [one & 0x7FFFFFFF or None for one in self._columns.ids("path")], pa.int32()
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
            **({"further_copy": column("further", count).cast(pa.bool_())} if self._further else {}),
            "by_meid": pc.if_else(
                pc.greater_equal(column("mtype", count), 0),
                _has(column("known", count), OWNER_KNOWN),
                pa.scalar(None, pa.bool_()),
            ),
            **self._octets(count),
            **self._routed(count),
        }

    def _hops(self, hops: "pa.Array", path: "pa.Array", count: int) -> "pa.Array":
        """Return how many routers each message has passed; null where a link route carries no trace."""
        routed = pc.equal(self._column("treatment", count), ADDRESS_CLASSES.index("link"))
        unknown = pc.and_(routed, pc.is_null(path))
        return pc.if_else(unknown, pa.scalar(None, pa.int16()), hops)

    def _octets(self, count: int) -> dict[str, "pa.Array"]:
        """Return columns of octets that few records have."""
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
        if "xact_id" in found:
            found["xact_id"] = trimmed(found["xact_id"])
        return found

    def _routed(self, count: int) -> dict[str, "pa.Array"]:
        """Return the column of source routes' states, if there are any."""
        state = self._column("state", count)
        known = pc.greater(state, 0)
        if not pc.any(known).as_py():
            return {}
        place = pc.if_else(known, pc.subtract(state, pa.scalar(1, pa.int8())), pa.scalar(None, pa.int8()))
        return {"route_state": _enum(place, ROUTE_STATES)}

    def sequences(self) -> dict[str, list[int]]:
        """Return the first and last record number by worker."""
        return {str(worker): list(numbers) for worker, numbers in self._columns.sequences().items()}

    def _column(self, name: str, count: int) -> "pa.Array":
        buffer = pa.py_buffer(self._columns.buffers[name])
        return pa.Array.from_buffers(_INTEGERS[buffer.size // self._columns.room], count, [None, buffer])

    def _fresh(self, name: str, known: dict[int, Any]) -> list[int]:
        """Return ids of a column that are not looked up yet."""
        ids = self._columns.ids(name, self._looked[name])
        self._looked[name] += len(ids)
        return [one for one in ids if one not in known]

    def _link(self, number: int) -> Link | None:
        found = self._reader.link(number)
        if found is None:
            return None
        connection, identity, container, kind, user, host = found
        return Link(connection, identity, LINK_KINDS[kind], *map(self._named, (container, user, host)))

    def _named(self, name: int) -> str | None:
        """Return a text, which is looked up once."""
        if name not in self._texts:
            self._texts[name] = _text(self._reader.name(name))
        return self._texts[name]


class _Coded:
    """Indices into a list of ids: a lookup per id serves all rows."""

    def __init__(self, places: "pa.Array") -> None:
        self._places = places

    def where(self, rows: "pa.Array", others: "_Coded", behind: int) -> "_Coded":
        """Return these codes in ``rows``, and elsewhere ``others``, whose list begins at ``behind``."""
        return _Coded(pc.if_else(rows, pc.add(self._places, pa.scalar(behind, pa.int32())), others._places))

    def numbers(self, values: list[Any], kind: "pa.DataType") -> "pa.Array":
        return pa.array(values, kind).take(self._places)

    def texts(self, values: list[str | None]) -> "pa.DictionaryArray":
        texts = list(dict.fromkeys(value for value in values if value is not None))
        places = {text: place for place, text in enumerate(texts)}
        moved = self.numbers([None if value is None else places[value] for value in values], pa.int32())
        return pa.DictionaryArray.from_arrays(moved, pa.array(texts, pa.string()), safe=False)


def _enum(column: "pa.Array", names: tuple[str, ...]) -> "pa.DictionaryArray":
    """Return a dictionary column from indices into names; an index beyond the end is null."""
    return pa.DictionaryArray.from_arrays(column.cast(pa.int32()), pa.array(names), safe=False)


def _has(known: "pa.Array", mask: int) -> "pa.Array":
    return pc.not_equal(pc.bit_wise_and(known, pa.scalar(mask, pa.int8())), 0)


def _below(column: "pa.Array", end: int) -> "pa.Array":
    return pc.if_else(pc.less(column, end), column, pa.scalar(None, column.type))


def _known(column: "pa.Array") -> "pa.Array":
    return pc.if_else(pc.less(column, 0), pa.scalar(None, column.type), column)


def trimmed(column: "pa.Array") -> "pa.Array":
    """Return octets without trailing zeros; Arrow trims only texts, but accepts any octets as text here."""
    texts = column.cast(pa.binary()).view(pa.string())
    return pc.ascii_rtrim(texts, characters="\0").view(pa.binary())


def _same(text: str, count: int) -> "pa.DictionaryArray":
    places = pa.repeat(pa.scalar(0, pa.int32()), count)
    return pa.DictionaryArray.from_arrays(places, pa.array([text]), safe=False)


def _text(text: bytes | None) -> str | None:
    return text.decode("utf-8", "backslashreplace") if text else None
