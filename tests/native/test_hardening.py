"""What reads the network natively is hardened (docs/security.md): our modules, the engine as installed.

The engine is also bound to itself (docs/tuning.md), as far as the compiler can do that.
"""

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECK = ROOT / ".ci/hardening"
ENGINE = ROOT / ".ci/engine"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
MODULES = [str(file.relative_to(ROOT).with_suffix(SUFFIX)) for file in ROOT.glob("[!.]*/**/*.pyx")]

PLAIN = """
#include <stdio.h>
int shown(const char *from, size_t n) { char text[80]; return snprintf(text, n, "%s", from) + text[0]; }
"""
CALLING = "int pn_called(void) { return 1; } int pn_calls(void) { return pn_called() + 1; }"


def checked(*files: Path | str, by: Path = CHECK) -> subprocess.CompletedProcess[str]:
    command = [str(by), "check", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def installed_engine() -> str:
    engine = importlib.util.find_spec("cproton_ffi")
    assert engine is not None
    assert engine.origin is not None
    return engine.origin


def printed(*asked: str, by: Path = CHECK, compiler: str = "gcc") -> list[str]:
    environment = {**os.environ, "CC": compiler}
    done = subprocess.run([str(by), *asked], capture_output=True, text=True, check=True, env=environment)
    return done.stdout.split()


def library(folder: Path, *flags: str, text: str = PLAIN) -> Path:
    source, made = folder / "plain.c", folder / "plain.so"
    source.write_text(text)
    subprocess.run(["gcc", "-shared", "-fPIC", *flags, str(source), "-o", str(made)], check=True)  # noqa: S607  gcc on the path
    return made


def test_everything_native_is_hardened() -> None:
    """The stack is guarded, copies are checked, and a loaded library's addresses are read-only."""
    done = checked(*(ROOT / module for module in MODULES), installed_engine())
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


def test_all_is_compiled_with_the_same_flags(tmp_path: Path) -> None:
    """By make and by the documented installation; with the interpreter's own, which a CFLAGS replaces."""
    cflags = printed("cflags", sys.executable)
    assert set(sysconfig.get_config_var("CFLAGS").split()) <= {*cflags}
    assert checked(library(tmp_path, *cflags, *printed("ldflags"))).returncode == 0
    page = (ROOT / "docs/operations.md").read_text()
    for made in ((ROOT / "Makefile").read_text().replace("$$", "$"), page):
        assert ".ci/engine install " in made
        assert 'CFLAGS="$(.ci/hardening cflags ' in made
        assert 'LDFLAGS="$(.ci/hardening ldflags)"' in made


def test_the_engine_calls_its_own_functions_directly(tmp_path: Path) -> None:
    """The installed one, and what its flags make; a library that another one could redirect is named."""
    flags = [flag for which in ("cflags", "ldflags") for flag in printed(which, sys.executable, by=ENGINE)]
    done = checked(library(tmp_path, "-O2", text=CALLING), by=ENGINE)
    assert (done.returncode, "plain.so looks up its own functions" in done.stderr) == (1, True)
    for bound in (library(tmp_path, *flags, text=CALLING), installed_engine()):
        done = checked(bound, by=ENGINE)
        assert (done.stderr, done.returncode) == ("", 0)


def test_a_compiler_that_cannot_bind_the_engine_hardens_it(tmp_path: Path) -> None:
    """It gets only flags that it knows."""
    modest = tmp_path / "cc"
    modest.write_text('#!/bin/sh\ncase "$*" in *-flto*) exit 1 ;; esac\nexec gcc "$@"\n')
    modest.chmod(0o755)
    for which, hardened in (("cflags", printed("cflags", sys.executable)), ("ldflags", printed("ldflags"))):
        assert printed(which, sys.executable, by=ENGINE, compiler=str(modest)) == hardened
        assert set(printed(which, sys.executable, by=ENGINE)) > {*hardened}
