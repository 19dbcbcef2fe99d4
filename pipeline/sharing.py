"""Java's archive of the classes that Spark needs: a third of a start is reading, checking and linking them.

The first run makes it in the user's cache (`~/.cache/routerd/spark-DIGEST.jsa`, 150 MB), and all later sessions map it.
The digest is of this Java and this Spark, and Java itself refuses an archive of others, and starts without it.
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

QUIET: Final = "-Xlog:cds*=off"  # it names each class that cannot be archived


def archive(java: str, spark: Path) -> Path:
    """Return where the archive is, or is to be, of a Java (its path and version) and the directory of a Spark."""
    jars = spark / "jars"
    told = f"{java}\n{jars}\n{jars.stat().st_mtime_ns if jars.is_dir() else 0}"
    digest = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache, "routerd", f"spark-{digest}.jsa")


class Sharing:
    """The archive of a session: used if it is there, else made at the end of the session if that is wanted."""

    def __init__(self, kept: Path, make: bool) -> None:
        self._kept = kept
        self._fresh: Path | None = None
        if make and kept.is_absolute() and not kept.exists():
            with suppress(OSError):  # a user may have no home
                kept.parent.mkdir(parents=True, exist_ok=True)
            if kept.parent.is_dir() and os.access(kept.parent, os.W_OK):
                self._fresh = kept.with_suffix(".new")

    @property
    def options(self) -> str:
        """The options of Java."""
        if self._fresh is not None:
            return f"-XX:ArchiveClassesAtExit={self._fresh} {QUIET}"
        return f"-XX:SharedArchiveFile={self._kept} -Xshare:auto {QUIET}" if self._kept.exists() else ""

    def settle(self, context: Any, well: bool) -> None:
        """After the end of a session: let Java write the archive and end, and keep it if all is ``well``.

        ``context`` was Spark's. The next session of this process starts another Java.
        """
        if self._fresh is None:
            return
        gateway, type(context)._gateway, type(context)._jvm = context._gateway, None, None
        gateway.shutdown()
        if not well:
            gateway.proc.kill()
        gateway.proc.stdin.close()  # Java ends with its input
        gateway.proc.wait()
        if well and self._fresh.exists():
            self._fresh.replace(self._kept)
        self._fresh.unlink(missing_ok=True)  # a part, which Java would refuse at every start
