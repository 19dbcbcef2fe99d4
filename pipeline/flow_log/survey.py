"""What is in a flow log, from its files' footers alone: which can be read, which hold the same records.

The survey names and leaves out a file that is cut short or not of a flow log. It finds a file that repeats records of
others, a compacted one or a copy, by the sequence numbers in its metadata, so nothing is counted twice and nothing has
to be shuffled. Where the metadata says too little (two files share numbers and lack some, or a compacted file has
none), the survey reads the numbers themselves.
"""

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pipeline.errors import PipelineError
from pipeline.files import file_system
from pipeline.flow_log.memory import Memory, Stamp
from pipeline.record_sets import RANGES
from shm.contract.flow_log.numbers import COLUMNS as KEY
from shm.contract.flow_log.numbers import Numbers, numbers
from shm.contract.flow_log.schema import COLUMNS, COMPACT, RAW, VERSION

SCHEMA_KEY: Final = b"routerd.flow.schema"
SCHEMA: Final = re.compile(r"routerd\.flow\.v(\d{1,6})")
NEWEST: Final = int(VERSION.rpartition(".v")[2])  # each version only adds columns, so all earlier ones are read
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
GONE: Final = "it was deleted after the directory was listed"


class Writer(NamedTuple):
    """The writer of records, which numbers them: a worker of a router, in one life of its core."""

    router: str
    boot: str
    worker: int


class Span(NamedTuple):
    """Consecutive numbers of one writer in one file."""

    writer: Writer
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of the log; ``dropped`` has by boot_id how many records had no room since the core started.

    ``times`` are the first and last ``ts``, in µs since 1970, if its footer says so.
    """

    path: str
    rows: int
    spans: tuple[Span, ...]
    router: str = ""
    dropped: Mapping[str, int] = field(default_factory=dict)
    times: tuple[int, int] | None = None

    @property
    def numbers(self) -> int:
        """How many numbers its spans contain."""
        return sum(span.last - span.first + 1 for span in self.spans)

    @property
    def complete(self) -> bool:
        """Whether the file has every record with a number in its spans."""
        return self.rows == self.numbers


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is left out, with the reason; another look at it may find it well ``again``."""

    path: str
    reason: str
    again: bool = False

    def __str__(self) -> str:
        return f"{self.path}: left out: {self.reason}"


@dataclass(slots=True)
class Survey:
    """A log: the records of ``clean`` files are nowhere else, ``tangled`` files share some with others."""

    directory: str = ""
    clean: list[LogFile] = field(default_factory=list)
    tangled: list[LogFile] = field(default_factory=list)
    copies: list[LogFile] = field(default_factory=list)  # files with all of their records in others
    compacted: int = 0  # how many files have their records in compacted ones
    replaced: set[str] = field(default_factory=set)  # these files and earlier ones, which may be gone
    skipped: list[Skipped] = field(default_factory=list)
    came: Mapping[str, int] = field(default_factory=dict)  # when each file was last changed, in ns since 1970

    @property
    def rows(self) -> int:
        """The number of records in the files that are read; tangled ones may repeat some."""
        return sum(file.rows for file in (*self.clean, *self.tangled))


def survey(directory: str, memory: Memory | None = None) -> Survey:
    """Survey every file of a log, local or on a file system with a URL; ``memory`` is that of former surveys.

    Raises ``PipelineError`` without such a directory, and for a file that must not be read or has a later version.
    """
    memory = memory or Memory()
    files, root = file_system(directory)
    found = Survey(directory)
    stamps, found.skipped = _listed(files, root, directory)
    memory.keep(stamps)
    found.came = {path: changed or 0 for path, (_, changed) in stamps.items()}
    paths = list(stamps)
    left, found.replaced = _without_compacted(files, root, paths)
    found.compacted = len(found.replaced.intersection(paths))
    looked = list(memory.each(_look, files, {path: path for path in left}).values())
    found.skipped += [one for one in looked if isinstance(one, Skipped)]
    read = [one for one in looked if isinstance(one, LogFile)]
    _sort(files, [one for one in read if one.rows and not one.spans], read, found, memory)
    if found.tangled:
        _sort(files, found.tangled, read, found, memory)
    memory.forget(one.path for one in found.skipped if one.again)
    return found


def _sort(files: Any, vague: list[LogFile], read: list[LogFile], into: Survey, memory: Memory) -> None:
    """Untangle the files that were read, after all numbers of the vague ones are known."""
    exact = memory.each(_exactly, files, {one.path: one for one in vague})
    into.skipped += [one for one in exact.values() if isinstance(one, Skipped)]
    read[:] = [one for file in read if isinstance(one := exact.get(file.path, file), LogFile)]
    untangle(read, into)


def _exactly(files: Any, file: LogFile) -> LogFile | Skipped:
    """Return the file with the numbers of its records, which it reads."""
    found = Numbers(RANGES)
    router = file.router
    try:
        with files.open_input_file(file.path) as stream:
            parquet = pq.ParquetFile(stream)
            for group in range(parquet.num_row_groups):
                found.add(numbers(parquet.read_row_group(group, columns=list(KEY))))
    except FileNotFoundError:
        return Skipped(file.path, GONE)
    except (OSError, pa.ArrowException) as error:
        return Skipped(file.path, f"its records cannot be read ({_said(error)})", _failed(files, error))
    spans = tuple(
        Span(Writer(router, boot, worker), one.first, one.last)
        for (boot, worker), ranges in sorted(found.ranges.items())
        for one in ranges
    )
    return replace(file, spans=spans)


def _listed(files: Any, root: str, directory: str) -> tuple[dict[str, Stamp], list[Skipped]]:
    """Return the files below a directory that are not hidden, in order, with their sizes and times; and those whose
    names nothing can open."""
    if files.get_file_info(root).type != fs.FileType.Directory:
        raise PipelineError(f"{directory} is not a directory; give the directory of a flowLog")
    try:
        # The router removes folders meanwhile: what is not found any more below the first one is no error.
        infos = files.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
    except OSError as error:
        raise PipelineError(f"{directory} cannot be listed: {error.strerror or error}") from error
    there: dict[str, Stamp] = {}
    strange: set[str] = set()
    for info in infos:
        path, known = _path(info)
        if info.type == fs.FileType.File and not _hidden(path[len(root) :]):
            there[path] = (info.size, info.mtime_ns)
            if not known:
                strange.add(path)
    skipped = [Skipped(path, "its name, or that of a directory above it, is no UTF-8") for path in sorted(strange)]
    return {path: there[path] for path in sorted(there.keys() - strange)}, skipped


def _path(info: Any) -> tuple[str, bool]:
    r"""Return the path of an entry, with octets that are no UTF-8 as ``\xNN``, and whether there are none of these."""
    try:
        return info.path, True
    except UnicodeDecodeError as error:
        return error.object.decode(errors="backslashreplace"), False


def _without_compacted(files: Any, root: str, paths: list[str]) -> tuple[list[str], set[str]]:
    """Return what to read of a directory with `raw` and `compact`, and the raw files that compacted ones replace.

    The manifests of `compact` say which of its files hold the records of which files of `raw`. A file that is named
    and gone replaces nothing. A file that no manifest names is read like any other: its numbers show what it repeats.
    """
    there = set(paths)
    sources: set[str] = set()
    for hour, entry in _manifests(files, f"{root}/{COMPACT}"):
        whole = {f"{root}/{COMPACT}/{hour}/{name}" for name in entry["files"]}
        if whole <= there:
            sources |= {f"{root}/{RAW}/{hour}/{name}" for name in entry["sources"]}
    return [path for path in paths if path not in sources], sources


def _manifests(files: Any, compact: str) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Yield each hour with its files and sources."""
    for info in files.get_file_info(fs.FileSelector(compact, allow_not_found=True)):
        path, known = _path(info)
        if known and re.fullmatch(r"_manifest-.*\.json", path.rpartition("/")[2]):
            try:
                with files.open_input_file(path) as file:
                    hours = json.loads(file.read())["hours"]
                yield from ((hour, {"files": one["files"], "sources": one["sources"]}) for hour, one in hours.items())
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise PipelineError(
                    f"{path} does not say which files were compacted ({error}): read {RAW} alone"
                ) from error


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/") if part)


def _look(files: Any, path: str) -> LogFile | Skipped:
    """Return a file as its footer describes it."""
    if not path.endswith(".parquet"):
        return Skipped(path, "it is not a Parquet file")
    try:
        with files.open_input_file(path) as file:
            footer = pq.read_metadata(file)
    except PermissionError as error:
        raise PipelineError(f"{path} must not be read: {error.strerror or error}") from error
    except FileNotFoundError:
        return Skipped(path, GONE)
    except (OSError, pa.ArrowException) as error:
        failed = _failed(files, error)
        what = "it cannot be read now" if failed else "it is cut short, or not a Parquet file"
        return Skipped(path, f"{what} ({_said(error)})", failed)
    metadata = footer.metadata or {}
    if why := _strange(path, metadata.get(SCHEMA_KEY, b"").decode(errors="replace")):
        return Skipped(path, why)
    names = footer.schema.to_arrow_schema().names
    missing = {column.name for column in COLUMNS if not column.nullable}.difference(names)
    if missing:
        return Skipped(path, f"it lacks the columns {', '.join(sorted(missing))}")
    return _described(path, footer, metadata)


def _failed(files: Any, error: Exception) -> bool:
    """Return whether reading failed, and not what was read: pyarrow has the same error for both.

    A local file system says which error it was; of a store's errors nobody knows.
    """
    local = isinstance(files, fs.LocalFileSystem)
    return isinstance(error, OSError) and (error.errno is not None or not local)


def _said(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:100]


def _strange(path: str, name: str) -> str:
    """Return why a file with a schema of this name is left out, or "".

    Raises ``PipelineError`` for a later version: its numbers could mean something else.
    """
    version = SCHEMA.fullmatch(name)
    if version is None:
        return "it is not a file of a flow log"
    if int(version[1]) < 1:
        return f"its schema is {name}, which no version of routerd ever wrote"
    if int(version[1]) > NEWEST:
        raise PipelineError(f"{path} has the schema {name}, and this version reads up to {NEWEST}: update routerd")
    return ""


def _described(path: str, footer: Any, metadata: dict[bytes, bytes]) -> LogFile | Skipped:
    try:
        router = metadata[b"routerd.flow.router"].decode()
        lives = json.loads(metadata.get(b"routerd.flow.lives", b"null"))
        if lives is None:
            lives = {metadata.get(b"routerd.flow.boot", b"").decode(): _life(metadata)}
        spans = tuple(
            Span(Writer(router, boot, int(worker)), int(first), int(last))
            for boot, life in sorted(lives.items())
            for worker, ranges in sorted(life["sequences"].items())
            for first, last, *_ in ranges
        )
        dropped = {boot: int(life["dropped"]) for boot, life in lives.items()}
        times = _times(footer)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        return Skipped(path, f"its metadata is damaged ({type(error).__name__}: {error})")
    return LogFile(path, footer.num_rows, spans, router, dropped, times)


def _times(footer: Any) -> tuple[int, int] | None:
    """Return the first and last ``ts`` of a file, if each of its row groups has statistics."""
    place = footer.schema.names.index("ts")
    groups = (footer.row_group(at).column(place).statistics for at in range(footer.num_row_groups))
    edges = [(one.min, one.max) if one is not None and one.has_min_max else None for one in groups]
    known = [one for one in edges if one is not None]
    if not known or len(known) < len(edges):
        return None
    first, last = min(one for one, _ in known), max(one for _, one in known)
    return (first - EPOCH) // MICROSECOND, (last - EPOCH) // MICROSECOND


def _life(metadata: dict[bytes, bytes]) -> dict[str, Any]:
    """Return the metadata of a file of one life of a core in the form of a compacted file's."""
    sequences = json.loads(metadata.get(b"routerd.flow.sequences", b"{}"))
    ranges = {worker: [(first, last)] for worker, (first, last) in sequences.items()}
    return {"sequences": ranges, "dropped": int(metadata.get(b"routerd.flow.dropped", b"0"))}


def untangle(files: Iterable[LogFile], into: Survey) -> None:
    """Sort files into clean ones, copies, and tangled ones."""
    files = sorted(files, key=lambda one: one.path)
    meeting = _meeting(files)
    tangled = {file.path for file in files if file.spans and file.rows > file.numbers}
    # Large files come first, so that a compacted file makes copies of its sources and not the reverse.
    taken: dict[Writer, list[_Taken]] = defaultdict(list)
    copies: set[str] = set()
    for file in sorted((one for one in files if one.path in meeting), key=lambda one: (-one.rows, one.path)):
        others: dict[str, LogFile] = {}
        missing = 0
        for writer, ranges in _by_writer(file).items():
            near = [one for one in taken[writer] if one.meets(ranges)]
            others.update((one.file.path, one.file) for one in near)
            missing += sum(not any(one.holds(mine) for one in near) for mine in ranges)
        if others and not missing and all(other.complete for other in others.values()):
            copies.add(file.path)
            continue
        if others:
            tangled |= {file.path, *others}
        for writer, ranges in _by_writer(file).items():
            taken[writer].append(_Taken(file, ranges))
    into.copies = [file for file in files if file.path in copies]
    into.tangled = [file for file in files if file.path in tangled - copies]
    into.clean = [file for file in files if file.path not in tangled | copies]


def _meeting(files: Iterable[LogFile]) -> set[str]:
    """Return the paths of files that share numbers with another, in one pass over the spans in order."""
    spans = sorted((span, file.path) for file in files for span in file.spans)
    found: set[str] = set()
    furthest: dict[Writer, tuple[int, str]] = {}
    for (writer, first, last), path in spans:
        end, other = furthest.get(writer, (-1, ""))
        if first <= end:
            found |= {path, other}
        if last > end:
            furthest[writer] = (last, path)
    return found


def _by_writer(file: LogFile) -> dict[Writer, list[tuple[int, int]]]:
    """Return the ranges of a file in order, by writer."""
    found: dict[Writer, list[tuple[int, int]]] = defaultdict(list)
    for writer, first, last in sorted(file.spans):
        found[writer].append((first, last))
    return found


class _Taken(NamedTuple):
    """The ranges of one writer in a file, in order."""

    file: LogFile
    ranges: list[tuple[int, int]]

    def meets(self, others: list[tuple[int, int]]) -> bool:
        """Return whether some of the others' numbers are in these ranges."""
        return any((one := self._at(last)) is not None and one[1] >= first for first, last in others)

    def holds(self, other: tuple[int, int]) -> bool:
        """Return whether one of these ranges contains the other."""
        one = self._at(other[1])
        return one is not None and one[0] <= other[0] and other[1] <= one[1]

    def _at(self, last: int) -> tuple[int, int] | None:
        """Return the last range that begins at or before ``last``."""
        place = bisect_right(self.ranges, last, key=lambda one: one[0])
        return self.ranges[place - 1] if place else None
