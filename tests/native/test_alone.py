"""Each body and header of ours compiles alone, without warnings, and no name of it is left unused."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = ("core", "workers")  # whose bodies are compiled as one, by a unity.c each
COMMAND = ["gcc", "-std=gnu11", "-D_GNU_SOURCE", f"-I{ROOT}", "-Wall", "-Wextra", "-Werror"]
CODE = ["-S", "-o", "/dev/null"]  # what is unused is found when code is made
READ = ["-fsyntax-only"]  # of a unity.c: it has bodies of which code is made alone, and all of them take long


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
    assert not warnings(*CODE, "-x", "c", "-", source=f'#include "{header}"\n' * 2)


@pytest.mark.parametrize("body", files(".c", *UNITS))
def test_body_stands_alone(body: str) -> None:
    """What it shares with others is declared in a header that it includes; all else is static and used."""
    made = READ if Path(body).name == "unity.c" else CODE
    assert not warnings(*made, "-Wmissing-prototypes", body)
