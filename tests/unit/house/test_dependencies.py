"""What the packages import is installed with them: this environment has more, and would hide what is missing."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[3]
INSTALLED = ("core", "pipeline", "routerd", "shm", "workers")
BUILT_IN = {"proton", "cproton", "cproton_ffi"}  # the engine, which a wheel has
BROUGHT = {"py4j", "google"}  # by PySpark and opentelemetry-proto, which bring them with each version
CYTHON = {"cpython", "cython", "libc", "posix"}  # what Cython brings for native code


def imported(file: Path) -> Iterator[str]:
    """The names of modules that a file imports when it runs, without those of its own package."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".py":
        yield from re.findall(r"(?m)^[ \t]*(?:from|import|cimport) (\w+)[\w.]*(?: c?import|$)", text)
        return
    tree = ast.parse(text)
    for node in ast.walk(tree):  # what only a check of types reads is not imported
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_every_module_of_others_is_of_a_declared_package() -> None:
    """A requirement of the project or of an extra; what only tests require is in no installation."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [names for extra, names in project["optional-dependencies"].items() if "test" not in extra]
    names = [name for group in (project["dependencies"], *groups) for name in group]
    declared = {re.split(r"[^\w.-]", name)[0].lower().replace("_", "-") for name in names}
    distributions = packages_distributions()
    known = {*sys.stdlib_module_names, *INSTALLED, *BUILT_IN, *BROUGHT, *CYTHON}
    files = [file for name in INSTALLED for file in (ROOT / name).rglob("*.py*") if file.suffix in (".py", ".pyx")]
    missing = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in files
        for name in sorted(set(imported(file)) - known)
        if not {one.lower().replace("_", "-") for one in distributions.get(name, [])} & declared
    ]
    assert len(files) > 100
    assert missing == []
