"""The file systems of directories, local or with a URL, and what Spark calls their files.

A URL goes to pyarrow and to Spark with its scheme and authority. pyarrow has no `s3a://` and calls it `s3://`; Spark of
Apache has no `s3://`. The part after `?` is for pyarrow alone: Spark has settings for the same things.
"""

import os
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from pipeline.errors import PipelineError

FOR_PYARROW: Final = {"s3a": "s3"}  # where the two names of a scheme differ
RENAMING: Final = ("local", "hdfs")  # elsewhere a rename is a copy of each file, and then a deletion
ADVICE: Final = {
    "hdfs": "; pyarrow needs Hadoop's own library: set HADOOP_HOME, and CLASSPATH=$(hadoop classpath --glob)"
}


def file_system(directory: str) -> tuple[Any, str]:
    """Return the file system of a directory, and its path there. Raises ``PipelineError`` if it cannot be reached."""
    if not directory.strip():
        raise PipelineError(f"{directory!r} is no directory: give its name")
    if "://" not in directory:
        if one := re.match(r"(s3a?|gs|gcs|abfss?|hdfs|file):/", directory):
            raise PipelineError(f"{directory} is not a URL: write two slashes, {one[1]}://…")
        path = str(Path(directory).absolute())
        if not path.isascii() and os.fsencode(path) != path.encode(errors="replace"):
            said = os.fsencode(path).decode(errors="backslashreplace")
            raise PipelineError(
                f"{said} has octets that are no UTF-8, and neither pyarrow nor Spark can open it: rename the "
                "directory, or give a link to it"
            )
        return fs.LocalFileSystem(), path
    url = urlsplit(directory)
    if url.password:
        raise PipelineError(
            f"a URL of {url.hostname} has a password in it, which all users of this machine can see: give it in the "
            "environment, such as AWS_SECRET_ACCESS_KEY, and to Spark in its configuration"
        )
    try:
        files, root = fs.FileSystem.from_uri(FOR_PYARROW.get(url.scheme, url.scheme) + directory[len(url.scheme) :])
    except (OSError, ValueError, pa.ArrowException) as error:
        raise PipelineError(f"{directory} cannot be reached: {error}{ADVICE.get(url.scheme, '')}") from error
    return files, root.rstrip("/") or "/"


def below(directory: str, name: str) -> str:
    """Return a directory below another one; what follows the `?` of a URL stays behind the path."""
    if "://" not in directory:
        return f"{directory.rstrip('/')}/{name}"
    path, question, options = directory.partition("?")
    return f"{path.rstrip('/')}/{name}{question}{options}"


def for_spark(directory: str, root: str, path: str) -> str:
    """Return what Spark calls the ``path`` of pyarrow that is ``root`` or below; ``root`` is that of the directory.

    A local path has a scheme, too: the default file system of a cluster may be another one.
    """
    if "://" not in directory:
        return f"file://{path}"
    url = urlsplit(directory)
    return f"{url.scheme}://{url.netloc}{unquote(url.path).rstrip('/')}{path.removeprefix(root)}"


def literal(path: str) -> str:
    """Return the pattern of a path that Spark reads: it takes every path for one, and writes to what it is given."""
    return re.sub(r"[\\*?\[\]{}]", r"\\\g<0>", path)


def appears_whole(files: Any) -> bool:
    """Return whether a directory appears under its new name in one step."""
    return files.type_name in RENAMING
