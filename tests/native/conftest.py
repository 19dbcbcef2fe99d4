"""Builds the C programs of the native tests."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INCLUDE = [f"-I{HERE.parents[1]}"]
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-tsan", "-Wno-unused-function"]  # -Wtsan: fences are not modelled

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile with a sanitizer and definitions: ``build("hash", "thread", "BROKEN_RELEASE")``, of this folder."""
    folder = tmp_path_factory.mktemp("native")

    def compile_one(source: str, sanitizer: str = "", *defines: str) -> Path:
        binary = folder / "-".join([source.replace("/", "-"), sanitizer.replace(",", "-"), *defines])
        flags = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"] if sanitizer else []
        if not binary.exists():
            command = ["gcc", "-std=gnu11", "-O1", "-g", "-pthread", *WARNINGS, *flags, *INCLUDE]
            command += [f"-D{define}" for define in defines] + [str(HERE / f"{source}.c"), "-o", str(binary)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return binary

    return compile_one


@pytest.fixture(scope="session")
def run() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a program; whoever hangs (a lost wake-up) fails."""
    options = {
        "TSAN_OPTIONS": "halt_on_error=1",
        "ASAN_OPTIONS": "detect_leaks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }

    def once(command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=600, env=os.environ | options, check=False
        )

    def run_one(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = once([str(program), *arguments])
        if "unexpected memory mapping" in done.stderr:  # gcc's ThreadSanitizer and a kernel that randomises more
            done = once(["setarch", "-R", str(program), *arguments])
        return done

    return run_one
