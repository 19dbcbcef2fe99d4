"""The flow log's files: each is written under a hidden name and gets its own when it is complete.

    .NAME.tmp --close--> fsync --rename--> NAME, and fsync of its folder

A killed recorder leaves `.NAME.tmp`, which the next one removes, and `.NAME.spool`, from which the next one
makes the file (`recovery`).
"""

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from routerd.recorder.rows import ROOM
from routerd.recorder.spool import Head
from shm.contract.flow_log.arrow import SCHEMA
from shm.contract.flow_log.schema import COLUMNS, VERSION, file_name, folder

if TYPE_CHECKING:
    import pyarrow as pa

# Columns with a different value in nearly every row: a dictionary would only cost.
_DISTINCT: Final = ("ts", "seq", "latency_ns", "settle_ns", "queue_ns")
_RANDOM: Final = ("msg_id_hash", "message_number")  # random values: compression is in vain
FORMAT: Final = {
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": [c.name for c in COLUMNS if c.name not in (*_DISTINCT, *_RANDOM)],
    "column_encoding": dict.fromkeys(_DISTINCT, "DELTA_BINARY_PACKED") | dict.fromkeys(_RANDOM, "PLAIN"),
    "coerce_timestamps": "us",
    "data_page_version": "1.0",
    "write_batch_size": ROOM,  # writes a column of a row group at once
    "store_schema": False,  # readers get strings; many cannot read dictionaries that differ by row group
}


class File:
    """A file being written. Every method may raise OSError; after that only ``abandon`` may be called."""

    def __init__(self, root: Path, head: Head) -> None:
        self.begun = head.begun
        self.rows = 0
        self._path = path_of(root, head)
        self._hidden = self._path.with_name(f".{self._path.name}.tmp")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._sequences: dict[str, list[int]] = {}
        self._told = {"schema": VERSION, "router": head.router, "boot": head.boot, "sampling": str(head.sampling)}
        self._file = self._hidden.open("wb")
        self._writer = pq.ParquetWriter(self._file, SCHEMA, **FORMAT)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def write(self, table: "pa.Table", sequences: dict[str, list[int]]) -> None:
        """Write one row group."""
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self.rows += table.num_rows
        for worker, (first, last) in sequences.items():
            known = self._sequences.setdefault(worker, [first, last])
            known[:] = [min(known[0], first), max(known[1], last)]

    def close(self, dropped: int) -> Path:
        """Complete the file. Return its path."""
        told = {**self._told, "dropped": str(dropped), "sequences": json.dumps(self._sequences)}
        self._writer.add_key_value_metadata({f"routerd.flow.{name}": value for name, value in told.items()})
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        publish(self._hidden, self._path)
        return self._path

    def abandon(self) -> None:
        """Give up the file and remove it."""
        with contextlib.suppress(Exception):  # the library may fail on a half-written file
            self._writer.close()
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            self._hidden.unlink()


def path_of(root: Path, head: Head) -> Path:
    """Return the path of a complete file."""
    return root / folder(head.begun) / file_name(head.router, head.boot, head.number)


def publish(hidden: Path, path: Path) -> None:
    """Give a complete file its name, durably: the name survives a crash of the machine."""
    hidden.rename(path)
    fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def own(router: str) -> str:
    """Return the beginning of the names of a router's files."""
    return file_name(router, "", 0).partition("--")[0]


def remove_unfinished(root: Path, router: str) -> int:
    """Remove what killed recorders of this router left unfinished. Return the number of files."""
    found = [path for path in root.glob(f"date=*/hour=*/.{own(router)}-*.tmp") if path.is_file()]
    for path in found:
        path.unlink()
    return len(found)


def next_number(root: Path, router: str, boot: str) -> int:
    """Return the number after those of all files, including files still to be made from spools."""
    end = file_name(router, boot, 0).removesuffix("000000.parquet")
    names = [path.name for path in root.glob(f"date=*/hour=*/{end}*")]
    names += [path.name.removeprefix(".").removesuffix(".spool") for path in root.glob(f"date=*/hour=*/.{end}*")]
    numbers = [name.removeprefix(end).removesuffix(".parquet") for name in names]
    return max((int(number) for number in numbers if number.isdecimal()), default=0) + 1
