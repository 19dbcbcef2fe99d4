"""Directories for results: the pipeline writes only into one with its marker, and one process at a time does.

    _routerd_results   `routerd pipeline run` made the directory
    _routerd_stream    `routerd pipeline stream` made the directory
    _routerd_day       the same made this directory for a day

A directory that holds something and has no marker belongs to somebody else: the pipeline refuses it by name and
touches nothing in it. The marker holds a secret of this output, and the names of what may be removed prove that their
giver knew it: a file or directory with a similar name is not ours. What was copied together with the marker is the
copy's own. Each module that removes something says what. On a local file system a process locks the marker while it
writes.
"""

import errno
import fcntl
import hashlib
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from pyarrow import fs

from pipeline.errors import PipelineError
from pipeline.files import appears_whole, file_system, for_spark
from shm.contract.flow_log.schema import COMPACT, RAW

ID: Final = "[0-9a-f]{32}"  # ends the names of what we make
FILE: Final = r"\.?(?:part-\d+-[0-9a-f-]{36}[\w.-]*\.parquet|_SUCCESS)(?:\.crc)?"
# What Spark puts into a table, finished or not; directories end in a slash.
TABLE: Final = rf"_temporary/(?:[\w-]+/)*(?:{FILE})?|{FILE}"


class Kind(NamedTuple):
    """A kind of output: its marker, and the command that writes it."""

    marker: str
    command: str


RESULTS: Final = Kind("_routerd_results", "run")
STREAM: Final = Kind("_routerd_stream", "stream")
DAY: Final = Kind("_routerd_day", "stream")  # a directory in that of a stream
KINDS: Final = (RESULTS, STREAM, DAY)

SAYS: Final = (
    "`routerd pipeline {}` made this directory and replaces its own results in it. Without this file it "
    "refuses the directory.\n"
)
TOKEN: Final = re.compile(rb"^token ([0-9a-f]{32})$", re.MULTILINE)


class Output:
    """A directory, local or on a file system with a URL."""

    def __init__(self, directory: str) -> None:
        self.files, self.root = file_system(directory)
        self.directory = directory
        self.local = isinstance(self.files, fs.LocalFileSystem)
        self.renames = appears_whole(self.files)  # if not, a part appears with the last file that is written into it

    def path(self, name: str) -> str:
        """Return the path of an entry."""
        return f"{self.root}/{name}"

    def url(self, path: str) -> str:
        """Return a path as Spark wants it."""
        return for_spark(self.directory, self.root, path)

    def entries(self, path: str = "") -> dict[str, Any]:
        """Return the types of the entries of the directory, or of one below it, by name; links are not followed.

        Raises ``PipelineError`` if it cannot be listed.
        """
        chosen = path or self.root
        try:
            if self.local:
                return _entries(chosen)
            infos = self.files.get_file_info(fs.FileSelector(chosen, allow_not_found=True))
        except OSError as error:
            raise PipelineError(f"{chosen} cannot be listed: {_why(error)}") from error
        return {info.base_name: info.type for info in infos}

    def has(self, path: str) -> bool:
        """Return whether anything has that path."""
        return bool(self.files.get_file_info(path).type != fs.FileType.NotFound)

    def starts(self, name: str, sign: str) -> bool:
        """Return whether a file can be read, and has a sign near its beginning."""
        try:
            with self.files.open_input_stream(self.path(name)) as stream:
                return sign.encode() in stream.read(1 << 16)
        except OSError:
            return False

    def strangers(self, path: str, holds: str) -> list[str]:
        """Return what somebody else put into a directory of ours.

        ``holds`` is a pattern of the paths that we and Spark put there, relative to the directory.
        """
        if self.local:
            walked = os.walk(path)  # it follows no links, and names those to directories among these
            below = {
                f"{folder}/{name}": "//" if Path(folder, name).is_symlink() else end
                for folder, folders, names in walked
                for end, entries in (("/", folders), ("", names))
                for name in entries
            }
        else:
            infos = self.files.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
            below = {info.path: "/" if info.type == fs.FileType.Directory else "" for info in infos}
        start = len(path.strip("/")) + 1  # a subtree's paths have no slash before them
        return sorted(one for one, end in below.items() if not re.fullmatch(holds, one.lstrip("/")[start:] + end))

    def remove(self, path: str, holds: str) -> None:
        """Remove a directory of ours, unless somebody else put something into it."""
        if not self.strangers(path, holds):
            self.files.delete_dir(path)

    def sweep(self, pattern: str, holds: str = "", *, keep: Collection[str] = ()) -> None:
        """Remove the entries of ours whose names match: directories, if ``holds`` says what they hold, or else files
        and links."""
        for name, kind in self.entries().items():
            if name in keep or not re.fullmatch(pattern, name) or not self.gave(name):
                continue
            if kind == fs.FileType.Directory:
                if holds:
                    self.remove(self.path(name), holds)
            elif not holds:
                Path(self.path(name)).unlink() if self.local else self.files.delete_file(self.path(name))

    def fresh(self, stem: str) -> str:
        """Return an unused name that shows to `sweep` that we gave it."""
        number = uuid4().hex[:16]
        return f"{stem}-{number}{self._proof(number)}"

    def gave(self, name: str) -> bool:
        """Return whether the digits of a name prove that this output gave it."""
        return name[-16:] == self._proof(name[-32:-16])

    def _proof(self, number: str) -> str:
        return hashlib.blake2b(number.encode(), digest_size=8, key=self._token()).hexdigest()

    def _token(self) -> bytes:
        for kind in KINDS:
            if self.belongs(kind) and (found := TOKEN.search(self._marker(kind))):
                return found[1]
        return b""

    def _marker(self, kind: Kind) -> bytes:
        with self.files.open_input_stream(self.path(kind.marker)) as stream:
            return bytes(stream.read(1 << 12))

    def sign(self, kind: Kind) -> None:
        """Give the marker its secret. Raises ``PipelineError`` if the file is not ours."""
        there = self._marker(kind) if self.belongs(kind) else b""
        if TOKEN.search(there):
            return
        if there:
            raise PipelineError(f"{self.path(kind.marker)} is not a marker of routerd: move it away")
        with self.files.open_output_stream(self.path(kind.marker)) as stream:
            stream.write(f"{SAYS.format(kind.command)}token {uuid4().hex}\n".encode())

    def belongs(self, kind: Kind) -> bool:
        """Return whether the directory has the marker."""
        return bool(self.files.get_file_info(self.path(kind.marker)).type == fs.FileType.File)


@contextmanager
def claimed(directory: str, kind: Kind, source: str) -> Iterator[Output]:
    """Make the directory if necessary, and hold it for this process alone; ``source`` is the log that is read.

    Raises ``PipelineError`` if it is somebody else's, in use, overlaps the log, or cannot be written to.
    """
    output = Output(directory)
    _keep_apart(output, source)
    _check(output, kind)
    new = _missing(output.root) if output.local else []
    try:
        output.files.create_dir(output.root, recursive=True)
        if not output.belongs(kind):
            output.sign(kind)
        lock = _lock(output, kind)
    except OSError as error:
        raise PipelineError(f"{directory} cannot be written to: {_why(error)}") from error
    try:
        output.sign(kind)  # a killed process left it empty
        yield output
    except BaseException:
        if new:
            with suppress(OSError, PipelineError):
                _unmake(output, kind, new)
        raise
    finally:
        if lock >= 0:
            os.close(lock)


def _missing(path: str) -> list[Path]:
    """Return a directory and those above it which do not exist, from the innermost on."""
    return [one for one in (Path(path), *Path(path).parents) if not one.exists()]


def _unmake(output: Output, kind: Kind, new: list[Path]) -> None:
    """Remove a directory of ours in which nothing but its marker is, and those that were made above it."""
    if set(output.entries()) == {kind.marker}:
        os.unlink(output.path(kind.marker))
        for one in new:
            os.rmdir(one)


def _check(output: Output, kind: Kind) -> None:
    info = output.files.get_file_info(output.root)
    if info.type == fs.FileType.NotFound:
        return
    if info.type != fs.FileType.Directory:
        raise PipelineError(f"{output.directory} is not a directory: give another --output")
    there = output.entries()
    for other in KINDS:
        if other != kind and other.marker in there:
            raise PipelineError(
                f"{output.directory} is the output of `routerd pipeline {other.command}`: give another --output"
            )
    if not there or output.belongs(kind):
        return
    some = ", ".join(sorted(there)[:3]) + (", …" if len(there) > 3 else "")
    raise PipelineError(
        f"{output.directory} holds what routerd did not make ({some}): give another --output, "
        "a new directory or an empty one"
    )


def _lock(output: Output, kind: Kind) -> int:
    """Return an open file whose lock ends with the process; -1 if the file system has no locks."""
    if not output.local:
        return -1
    lock = os.open(output.path(kind.marker), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise PipelineError(
            f"another `routerd pipeline {kind.command}` is writing to {output.directory}: wait until it ends, "
            "or give another --output"
        ) from None
    except OSError as error:
        os.close(lock)
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
            raise
        return -1
    return lock


def _keep_apart(output: Output, source: str) -> None:
    """Raise ``PipelineError`` if the output is the log, in it, or above it."""
    log = Output(source)
    same = output.files.type_name == log.files.type_name == "s3"  # also with other options after the `?`
    if not same and not output.files.equals(log.files):
        return
    for part in (log.root, log.path(RAW), log.path(COMPACT)):  # these may be links to elsewhere
        mine, theirs = (_chain(path, local=output.local) for path in (output.root, part))
        if not theirs or not mine:
            continue
        where = "is" if mine[0] == theirs[0] else "is in" if theirs[0] in mine else "is above"
        if where != "is above" or mine[0] in theirs:
            raise PipelineError(f"--output {output.directory} {where} the log, {source}: give a directory beside it")


def _chain(path: str, *, local: bool) -> list[object]:
    """Return a directory and all above it: as names, or locally as device and inode, whatever the name."""
    if not local:
        parts = path.strip("/").split("/")
        return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]
    real = Path(path).resolve()
    chain: list[object] = []
    for one in (real, *real.parents):
        try:
            status = one.stat()
        except OSError:
            chain.append(one)  # it does not exist yet, or must not be read
        else:
            chain.append((status.st_dev, status.st_ino))
    return chain


def _entries(path: str) -> dict[str, Any]:
    """Return entries with pyarrow's types, and also links that point to nothing, which pyarrow leaves out."""
    try:
        found = list(os.scandir(path))
    except FileNotFoundError:
        return {}
    kinds = {one.name: fs.FileType.Directory if one.is_dir() else fs.FileType.File for one in found}
    return kinds | {one.name: fs.FileType.Unknown for one in found if one.is_symlink()}


def _why(error: OSError) -> str:
    return error.strerror or str(error)
