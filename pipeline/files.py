"""The file systems of directories, local or with a URL."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from pipeline.errors import PipelineError


def file_system(directory: str) -> tuple[Any, str]:
    """Return the file system of a directory, and its path there. Raises ``PipelineError`` if it cannot be reached."""
    if "://" not in directory:
        return fs.LocalFileSystem(), str(Path(directory).absolute())
    try:
        files, root = fs.FileSystem.from_uri(directory)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise PipelineError(f"{directory} cannot be reached: {error}") from error
    return files, root
