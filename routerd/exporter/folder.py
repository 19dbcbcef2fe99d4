"""Serves the files of an HTTP listener's httpRootDir: whole files, and none from outside that directory."""

import mimetypes
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from routerd.exporter.server import Answer

MOST_BYTES: Final = 16 * 1024 * 1024  # the largest file; it is in memory while it is sent
INDEX: Final = "index.html"


def file_answer(root: Path, path: str) -> Answer | None:
    """Return the file that a path names below `root`, or None if none may be served."""
    try:
        found = root.joinpath(unquote(path).lstrip("/")).resolve()
        if found.is_dir():
            found /= INDEX
        if not found.is_relative_to(root.resolve()) or not found.is_file():
            return None
        if found.stat().st_size > MOST_BYTES:
            return Answer(b"the file is too large to be served here\n", status=413)
        body = found.read_bytes()
    except (OSError, ValueError):
        return None
    kind, encoding = mimetypes.guess_type(found.name)
    return Answer(body, "application/octet-stream" if encoding or not kind else kind)
