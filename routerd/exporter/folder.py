"""Serves the files of an HTTP listener's httpRootDir: whole files, and none from outside that directory."""

import mimetypes
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from routerd.exporter.server import Answer

MOST_BYTES: Final = 16 * 1024 * 1024  # the largest file; it is in memory while it is sent
INDEX: Final = "index.html"


def file_answer(root: Path, path: str) -> Answer | None:
    """Return the file that a path names below `root`, or None if none may be served.

    A directory's index is served at a path that ends in a slash, since its own links are relative to that.
    """
    name = unquote(path)
    try:
        found = root.joinpath(name.lstrip("/")).resolve()
        is_folder = found.is_dir()
        if is_folder:
            found = (found / INDEX).resolve()  # the index may be a link, too
        elif name.endswith("/"):
            return None
        if not found.is_relative_to(root.resolve()) or not found.is_file():
            return None
        if is_folder and not name.endswith("/"):
            last = quote(unquote(path.rpartition("/")[2]), safe="")
            return Answer(b"", status=301, headers={"Location": f"./{last}/"})
        if found.stat().st_size > MOST_BYTES:
            return Answer(b"the file is too large to be served here\n", status=413)
        body = found.read_bytes()
    except (OSError, ValueError, RuntimeError):  # the last one: a link leads to itself (pathlib)
        return None
    kind, encoding = mimetypes.guess_type(found.name)
    return Answer(body, "application/octet-stream" if encoding or not kind else kind)
