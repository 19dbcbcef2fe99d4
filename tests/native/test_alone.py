"""Each body and header of ours compiles alone, without warnings, and no name of it is left unused."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = ("core", "workers")  # whose bodies are compiled as one, by a unity.c each
COMMAND = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-S", "-o", "/dev/null", f"-I{ROOT}"]
COMMAND += ["-Wall", "-Wextra", "-Werror"]


def files(suffix: str, *packages: str) -> list[str]:
    """Our own, not what Cython writes."""
    found = [file for name in packages for file in (ROOT / name).rglob(f"*{suffix}")]
    return sorted(str(file.relative_to(ROOT)) for file in found if not file.with_suffix(".pyx").exists())


def warnings(*what: str, source: str = "") -> str:
    command = [*COMMAND, *what]
    done = subprocess.run(command, cwd=ROOT, input=source, capture_output=True, text=True, check=False)
    return done.stderr


@pytest.mark.parametrize("header", files(".h", "shm", "bench", *UNITS))
def test_header_stands_alone(header: str) -> None:
    """It includes what it needs, and may be included twice."""
    assert not warnings("-x", "c", "-", source=f'#include "{header}"\n' * 2)


@pytest.mark.parametrize("body", files(".c", *UNITS))
def test_body_stands_alone(body: str) -> None:
    """What it shares with others is declared in a header that it includes; all else is static and used."""
    assert not warnings("-Wmissing-prototypes", body)
