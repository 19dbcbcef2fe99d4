"""Everything native compiles for ARM, too: what Cython writes, with all headers, and what is C alone.

Code is made of the units in which the router's own bodies are compiled; they call the assembler that there is. Of all
else the compiler only reads what it says: making code of it, too, would take twice the time.
"""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = "aarch64-linux-gnu-gcc"
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
PROGRAMS = sorted([*ROOT.glob("bench/*.c"), *ROOT.glob("tests/**/*.c")])
UNITS = sorted(ROOT.glob("[!.]*/**/unity.c"))
MODULES = sorted(ROOT.glob("[!.]*/**/*.pyx"))


@pytest.fixture(autouse=True, scope="module")
def _there() -> None:
    if not shutil.which(COMPILER):
        # `make test` installs the compiler for root; other users are asked for nothing that building does not need
        pytest.skip("install the Debian packages gcc-aarch64-linux-gnu and libc6-dev-arm64-cross")


def compiled(source: Path, *flags: str) -> str:
    """What the compiler has to say."""
    command = [COMPILER, "-std=gnu11", "-D_GNU_SOURCE=", *WARNINGS, *flags, f"-I{ROOT}", "-c", str(source)]
    return subprocess.run([*command, "-o", "/dev/null"], capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("module", MODULES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_module_compiles_for_arm(module: Path) -> None:
    """As Cython has written it here, for a Python of the same word size."""
    source = module.with_suffix(".c")
    assert source.exists(), f"run make build: it writes {source.relative_to(ROOT)}"
    theirs = [f"-isystem{sysconfig.get_path('include')}", "-Wno-sign-compare"]
    assert not compiled(source, *theirs, "-fsyntax-only")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda file: str(file.relative_to(ROOT)))
def test_c_compiles_for_arm(program: Path) -> None:
    """Tests and benchmarks of headers alone; what Cython has written is above."""
    if (program.with_suffix(".pyx")).exists():
        return
    assert not compiled(program, "-fsyntax-only")


@pytest.mark.parametrize("unit", UNITS, ids=lambda file: str(file.relative_to(ROOT)))
def test_code_is_made_for_arm(unit: Path) -> None:
    """With hardening."""
    assert not compiled(unit, "-fstack-protector-strong")
