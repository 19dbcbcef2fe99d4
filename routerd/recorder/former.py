"""Takes over what an early version has left: its names stood for several ids, such as edge_1 for edge-1.

The files of this router are those that say so themselves. They get names of today, under which they are compacted,
deleted and recovered; the manifest is made anew from the compacted files.
"""

import contextlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from routerd.recorder import spool
from routerd.recorder.files import own
from shm.contract.flow_log.schema import COMPACT, RAW, former_name, today_name


def take_over(directory: Path, router: str) -> int:
    """Rename the router's files that have former names. Return how many. Raises OSError."""
    former = former_name(router)
    if former == own(router):
        return 0
    mine = [path for path in directory.glob(f"*/date=*/hour=*/{former}-*.parquet") if _owner(path) == router]
    mine += [path for path in directory.glob(f"{RAW}/date=*/hour=*/.{former}-*.spool") if _left(path, router)]
    names = {path: path.with_name(today_name(path.name, router)) for path in mine}
    taken = [path for path, today in names.items() if today.exists()]  # by a version that came and went
    for path in names.keys() - taken:
        path.rename(names[path])
    manifest = directory / COMPACT / f"_manifest-{former}.json"
    with contextlib.suppress(FileNotFoundError, ValueError, RecursionError, AttributeError):
        if json.loads(manifest.read_bytes()).get("router") == router:
            manifest.unlink()
    return len(names) - len(taken)


def _owner(path: Path) -> str | None:
    """Return the router of a file; None if it does not say."""
    try:
        name: bytes = (pq.read_metadata(path).metadata or {})[b"routerd.flow.router"]
        return name.decode()
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return None


def _left(path: Path, router: str) -> bool:
    """Whether a killed recorder of the router left this spool. The file that it did not complete goes."""
    with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
        head = spool.head(file) if spool.lock(file) else None
        if head is not None and head.router == router:
            path.with_name(f"{path.name.removesuffix('.spool')}.tmp").unlink(missing_ok=True)
            return True
    return False
