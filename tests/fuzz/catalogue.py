"""The list of all fuzzing targets.

A native target is a C file in tests/fuzz/targets that defines LLVMFuzzerTestOneInput. A Python target is a module there
that defines ``one(octets)``. Each has a corpus in tests/fuzz/corpus, a text file of the same name: a line for each
input, in base64 (RFC 4648), sorted.
"""

import base64
import importlib.util
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from tests.fuzz import material

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests" / "fuzz" / "targets"
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
MOST = 200_000  # octets of a corpus

WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-g", "-pthread", *WARNINGS, f"-I{ROOT}"]
SANITIZERS = "address,undefined"


def engine(file: Path | None = None) -> list[str]:
    """How to link the AMQP engine, a module of Python's: with Python. Without a file it is the installed one."""
    if file is None:
        module = importlib.util.find_spec("cproton_ffi")
        assert module is not None
        assert module.origin is not None
        file = Path(module.origin)
    folder = sysconfig.get_config_var("LIBDIR")
    folders = [f"-Wl,-rpath,{path}" for path in (folder, file.parent)]
    return [str(file), f"-L{folder}", *folders, f"-lpython{sysconfig.get_config_var('LDVERSION')}"]


@dataclass(frozen=True)
class Target:
    """What is fuzzed, and in octets how long an input may be."""

    name: str
    longest: int
    native: bool = True
    material: Callable[[Path], None] | None = None  # writes files that the target finds in FUZZ_MATERIAL
    engine: bool = False  # it needs the AMQP engine

    @property
    def corpus(self) -> Path:
        """The file of its inputs."""
        return CORPUS / f"{self.name}.txt"

    @property
    def inputs(self) -> list[bytes]:
        """The inputs of its corpus, in the order of the file; none of a new target."""
        lines = self.corpus.read_text().splitlines() if self.corpus.exists() else []
        return [base64.b64decode(line, validate=True) for line in lines]

    def unpack(self, folder: Path) -> list[Path]:
        """Write each input of the corpus to a file of its own in a new folder."""
        folder.mkdir(parents=True)
        files = [folder / f"{number:04}" for number in range(len(self.inputs))]
        for file, octets in zip(files, self.inputs, strict=True):
            file.write_bytes(octets)
        return files

    def pack(self, folder: Path) -> None:
        """Make the corpus of the files in a folder. If they are too long, it keeps its own, and gets the shortest."""
        lines = {f"{base64.b64encode(file.read_bytes()).decode()}\n" for file in folder.iterdir()}
        if sum(map(len, lines)) > MOST:
            old = {f"{base64.b64encode(octets).decode()}\n" for octets in self.inputs}
            ordered = [*old, *sorted(lines - old, key=len)]
            lines = {line for line, size in zip(ordered, accumulate(map(len, ordered)), strict=True) if size <= MOST}
        self.corpus.write_text("".join(sorted(lines)))

    def prepare(self, folder: Path) -> dict[str, str]:
        """Write what the target needs, and return the environment that names it."""
        if not self.material:
            return {}
        folder.mkdir(parents=True, exist_ok=True)
        self.material(folder)
        return {"FUZZ_MATERIAL": str(folder)}

    def build(self, compiler: str, sanitizers: str, program: Path, *more: str, with_engine: Path | None = None) -> None:
        """Compile a native target; a failure says what the compiler said."""
        flags = [*FLAGS, f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all"]
        linked = engine(with_engine) if self.engine else []
        command = [compiler, *flags, str(SOURCES / f"{self.name}.c"), *more, *linked, "-o", str(program)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


TARGETS = [
    Target("values", 600),
    Target("frames", 1200),
    Target("sessions", 4096),
    Target("waiting", 2048),
    Target("utf8", 64),
    Target("scan", 600),
    Target("extract", 600),
    Target("annotations", 1200),
    Target("source_routes", 1500, material=material.source_routes),
    Target("websocket", 1024),
    Target("rmr_frames", 1200),
    Target("rmr_keys", 400),
    Target("rmr_records", 1200),
    Target("memory", 1200),
    Target("worker", 1500, engine=True),
    Target("logins", 800, material=material.logins, engine=True),
    Target("core_actions", 4000),
    Target("amqp_values", 400, native=False),
    Target("configuration", 1200, native=False),
    Target("http", 1200, native=False),
    Target("management", 600, native=False),
    Target("recording", 64, native=False),
    Target("route_texts", 100, native=False),
    Target("router_messages", 1500, native=False),
    Target("tables", 800, native=False),
]
