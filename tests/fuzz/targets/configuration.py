"""Whatever stands in a file: it loads, or it raises ConfigError with a mistake at a line of the file.

The first octet chooses one of the three formats.
"""

import os
import tempfile
from pathlib import Path

from routerd.config import Config, ConfigError, load

FORMATS = ("conf", "json", "toml")
FOLDER = Path(tempfile.mkdtemp(prefix="routerd-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))


def tells(path: Path, octets: bytes, error: ConfigError) -> None:
    """Each mistake is one printable line at a line that the file has."""
    assert any(not mistake.warning for mistake in error.mistakes)
    for mistake in error.mistakes:
        assert 0 < mistake.line <= octets.count(b"\n") + 1
        assert str(mistake).startswith(f"{path}:{mistake.line}: ")
        assert str(mistake).isprintable()


def one(octets: bytes) -> None:
    path = FOLDER / f"f.{FORMATS[octets[0] % 3 if octets else 0]}"
    path.write_bytes(octets[1:])
    try:
        config = load(path)
    except ConfigError as error:
        tells(path, octets[1:], error)
        return
    assert isinstance(config, Config)
    assert config.router.id
