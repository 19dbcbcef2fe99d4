"""What reads the network natively is hardened (docs/security.md): our modules, the engine as installed."""

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECK = ROOT / ".ci/hardening"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
MODULES = [str(file.relative_to(ROOT).with_suffix(SUFFIX)) for file in ROOT.glob("[!.]*/**/*.pyx")]

PLAIN = """
#include <stdio.h>
int shown(const char *from, size_t n) { char text[80]; return snprintf(text, n, "%s", from) + text[0]; }
"""


def checked(*files: Path | str) -> subprocess.CompletedProcess[str]:
    command = [str(CHECK), "check", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def printed(*asked: str) -> list[str]:
    return subprocess.run([str(CHECK), *asked], capture_output=True, text=True, check=True).stdout.split()


def library(folder: Path, *flags: str) -> Path:
    source, made = folder / "plain.c", folder / "plain.so"
    source.write_text(PLAIN)
    subprocess.run(["gcc", "-shared", "-fPIC", *flags, str(source), "-o", str(made)], check=True)  # noqa: S607  gcc on the path
    return made


def test_everything_native_is_hardened() -> None:
    """The stack is guarded, copies are checked, and a loaded library's addresses are read-only."""
    engine = importlib.util.find_spec("cproton_ffi")
    assert engine is not None
    done = checked(*(ROOT / module for module in MODULES), engine.origin)
    assert (done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize(
    ("flags", "lacking"),
    [
        ([], ["the stack protector", "checked copies", "immediate binding"]),
        (["-fstack-protector-strong", "-D_FORTIFY_SOURCE=2", "-Wl,-z,now"], ["checked copies"]),
        (["-O2", "-fstack-protector-strong", "-D_FORTIFY_SOURCE=2", "-Wl,-z,norelro,-z,now"], ["read-only"]),
    ],
)
def test_what_is_not_is_named(tmp_path: Path, flags: list[str], lacking: list[str]) -> None:
    """Each thing that a library lacks, also where the flags are there and nothing was optimised."""
    done = checked(library(tmp_path, *flags))
    assert done.returncode == 1
    for what in lacking:
        assert f"plain.so lacks {what}" in done.stderr


def test_the_engine_is_compiled_with_the_same_flags(tmp_path: Path) -> None:
    """By make and by the documented installation; with the interpreter's own, which a CFLAGS replaces."""
    cflags = printed("cflags", sys.executable)
    assert set(sysconfig.get_config_var("CFLAGS").split()) <= {*cflags}
    assert checked(library(tmp_path, *cflags, *printed("ldflags"))).returncode == 0
    page = (ROOT / "docs/operations.md").read_text()
    for made in ((ROOT / "Makefile").read_text().replace("$$", "$"), page):
        assert 'CFLAGS="$(.ci/hardening cflags ' in made
        assert 'LDFLAGS="$(.ci/hardening ldflags)"' in made
