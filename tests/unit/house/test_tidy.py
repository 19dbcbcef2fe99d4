"""Rules of the house that a reviewer should not have to look for."""

import ast
import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tree import CODE, OURS, ROOT, lines, once, package, place, sources, tracked

# What a folder may know beside itself, in Python, Cython and C; docs/architecture.md says what each is for.
# What is not listed may know all: bench and the tests.
SHM = "shm shm/codec shm/contract shm/contract/flow_log shm/memory shm/statistics"
FORWARDING = "core/forwarder/tables core/forwarder/settlement core/forwarder/delivery"  # what planes may call
PLANE = f"{SHM} core/addresses core/forwarder core/links"
MAY_IMPORT: dict[str, set[str]] = {
    folder: set(known.split())
    for folder, known in {
        "shm": "shm/codec shm/contract shm/memory shm/statistics",
        "shm/statistics": "shm shm/contract",
        "shm/memory": "shm shm/contract shm/statistics",
        "shm/codec": "shm/memory",
        "shm/contract": "shm shm/contract/flow_log shm/memory shm/statistics",
        "shm/contract/flow_log": "",
        # A worker: each floor knows those below it; source routes are rules without a connection.
        "workers/lane": SHM,
        "workers/state": f"{SHM} workers/lane",
        "workers/source_routes": SHM,
        "workers/transport": f"{SHM} workers/state",
        "workers/session": f"{SHM} workers/lane workers/state workers/transport",
        "workers/amqp": f"{SHM} workers/session workers/source_routes workers/state workers/transport",
        "workers/control": f"{SHM} workers/source_routes",
        "workers/framed": f"{SHM} workers/amqp workers/control workers/state workers/transport",
        "workers/ockam": f"{SHM} workers/amqp workers/control workers/framed workers/source_routes"
        " workers/state workers/transport",
        "workers/rmr": f"{SHM} workers/amqp workers/control workers/framed workers/state workers/transport",
        "workers/loop": f"{SHM} workers/amqp workers/control workers/framed workers/lane workers/ockam workers/rmr"
        " workers/session workers/source_routes workers/state workers/transport",
        "workers": f"{SHM} workers/control workers/loop workers/ockam workers/rmr workers/source_routes",
        # The core: the forwarder knows nobody. Planes build on core/links; only core/process knows them all.
        "core/amqp": SHM,
        # The forwarder's rooms: each floor knows those below it, the glue knows all.
        "core/forwarder/tables": SHM,
        "core/forwarder/inspection": f"{SHM} core/forwarder/tables core/forwarder/settlement",
        "core/forwarder/settlement": f"{SHM} core/forwarder/tables",
        "core/forwarder/delivery": f"{SHM} core/forwarder/tables core/forwarder/settlement",
        "core/forwarder/changes": f"{SHM} {FORWARDING} core/forwarder/inspection",
        "core/forwarder/recording": f"{SHM} {FORWARDING} core/forwarder/changes core/forwarder/inspection",
        "core/forwarder/turns": f"{SHM} {FORWARDING} core/forwarder/changes core/forwarder/inspection"
        " core/forwarder/recording",
        "core/forwarder": f"{SHM} {FORWARDING} core/forwarder/changes core/forwarder/inspection"
        " core/forwarder/recording core/forwarder/turns",
        "core/addresses": f"{SHM} core/forwarder",
        "core/links": f"{SHM} core/addresses core/amqp core/forwarder",
        "core/exchanges": PLANE,
        "core/flow_log": f"{PLANE} {FORWARDING}",
        # Route tables: as values, in use, and from and for others; core/rmr itself is their list of planes.
        "core/rmr/tables": SHM,
        "core/rmr/forwarding": f"{SHM} {FORWARDING}",
        "core/rmr/active": f"{PLANE} core/rmr/tables",
        "core/rmr/managers": f"{PLANE} core/amqp core/rmr/active core/rmr/tables",
        "core/rmr": f"{PLANE} core/rmr/active core/rmr/managers",
        "core/source_routes": PLANE,
        "core/link_routes": PLANE,
        "core/interior": f"{PLANE} core/amqp core/link_routes",
        "core/edge": f"{PLANE} core/amqp core/interior core/link_routes",
        "core/process": f"{PLANE} core/edge core/exchanges core/flow_log core/interior core/link_routes core/rmr"
        " core/source_routes",
        "core/management": f"{PLANE} core/amqp core/exchanges core/interior core/link_routes core/process"
        " core/rmr/active core/rmr/managers core/rmr/tables core/source_routes",
        "core": f"{SHM} core/addresses core/interior core/management core/process",
        # What starts and checks the others knows of them only what is listed here.
        "routerd/log": SHM,
        "routerd/recorder": SHM,
        "routerd/replay": f"{SHM} core/forwarder routerd/machine",
        "routerd/source_routes": SHM,
        "routerd/exporter": f"{SHM} workers/control",
        # Reading a configuration, then translating it, then changing it while the router runs, then running it.
        "routerd/config/formats": SHM,
        "routerd/config/entities": f"{SHM} routerd/config/formats",
        "routerd/machine": f"{SHM} routerd/config/entities workers/control",
        "routerd/config/rules": f"{SHM} core/addresses core/rmr/tables routerd/config/entities routerd/config/formats"
        " routerd/exporter routerd/log routerd/machine routerd/source_routes workers/control workers/loop",
        "routerd/config": f"{SHM} routerd/config/entities routerd/config/formats routerd/config/rules",
        "routerd/translate": f"{SHM} core/rmr/tables routerd/config routerd/config/entities routerd/config/formats"
        " routerd/log routerd/machine routerd/source_routes workers/control",
        "routerd/reload": f"{SHM} routerd/config routerd/config/entities routerd/config/formats"
        " routerd/config/rules routerd/log routerd/machine routerd/translate",
        "routerd/supervise": f"{SHM} routerd/config routerd/config/entities routerd/config/formats"
        " routerd/log routerd/machine routerd/reload routerd/translate",
        "routerd/cli": f"{SHM} core/rmr/tables routerd/config routerd/config/formats routerd/log"
        " routerd/machine routerd/replay routerd/source_routes routerd/translate workers/source_routes",
        "routerd": f"{SHM} core routerd/cli routerd/config routerd/config/entities"
        " routerd/config/formats routerd/exporter routerd/log routerd/machine routerd/recorder"
        " routerd/supervise pipeline workers",
        "pipeline": "shm/contract/flow_log pipeline/flow_log pipeline/generate pipeline/output pipeline/report"
        " pipeline/tables",
        "pipeline/flow_log": "shm/contract/flow_log pipeline",
        "pipeline/generate": "shm/contract/flow_log pipeline",
        "pipeline/output": "shm/contract/flow_log pipeline",
        "pipeline/report": "shm/contract/flow_log pipeline pipeline/output",
        "pipeline/tables": "shm/contract/flow_log pipeline/flow_log",
        "pyspark_routerd.py": "pipeline/flow_log routerd",
    }.items()
}
# Files that know more, and why.
ALSO_KNOW = {
    "core/forwarder/machine.pxd core/flow_log core/rmr/forwarding": "the glue declares what planes say to Python",
    "core/forwarder/unity.c core/flow_log core/rmr/forwarding": "a translation unit has the bodies of its planes",
    "core/rmr/tables/record_names.c core/forwarder/tables": "the hash of texts",
    "workers/source_routes/senders.py workers/control": "the guard and neighbours of its connection",
    "workers/source_routes/single.c workers/amqp": "a message is read as where one comes in",
    "workers/source_routes/unity.c workers/amqp": "a translation unit has the bodies that it calls",
    "workers/source_routes/write.c workers/amqp": "annotations of the next router are written with the rest",
    "workers/amqp/flow_extract.c workers/rmr": "the key that the flow log records of RMR's messages",
    "workers/transport/accept.c workers/framed": "an accepted socket becomes an AMQP or a framed connection",
}
LONGEST_FILE = 420
MOST_PARAMETERS = 7
FUNCTION = {
    True: re.compile(r"^[A-Za-z_][\w \t*]*?\b(\w+)\(", re.MULTILINE),  # C
    False: re.compile(r"^[ \t]*(?:async |cp?def [^\n(=]*?|def )\s*(?:def )?\*?(\w+)\(", re.MULTILINE),
}
LONGEST_LINE = 120  # of C; ruff knows Python's

# What must not stay in the tree, and what to do instead.
BANNED = {
    r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b": "do it, or write down the reason why not",
    r"# type: ignore(?:\[[\w, -]+\])?\s*$": "say why behind it",
    r"# noqa(?:: *[A-Z]+\d+(?:, *[A-Z]+\d+)*)?\s*$": "say why behind it",
    r"multiprocessing\.shared_memory": "its tracker removes segments of others; use shm.memory.segment",
    r"https?://[^ \"]*(?:pypi|pythonhosted|npmjs|debian)\.org": "name no registry; pip and npm know theirs",
}

# Modules that are started by name and not imported.
STARTED = {
    "routerd.__main__": "the console script",
    "routerd.qdrouterd": "the other console script",
    "routerd.supervise.supervisor": "imported late, by routerd run",
    "routerd.process": "every child's entry point",
    "core.main": "imported by routerd.process",
    "workers.main": "imported by routerd.process",
    "routerd.exporter.main": "imported by routerd.process",
    "routerd.recorder.main": "imported by routerd.process",
    "pipeline.__main__": "spark-submit, and python -m",
    "bench.run": "make bench",
    "bench.client": "started by the bench",
    "bench.baseline": "started by the bench",
    "bench.core_alone": "a measurement of its own",
    "bench.route_tables": "another one",
    "bench.network": "a simulation of its own",
    "bench.annotations": "another one",
    "bench.memory": "another one",
    "bench.scaling": "another one",
    "bench.pipeline": "another one",
    "bench.recording": "another one",
    "bench.scrape": "another one",
}


def module(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@once
def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of every import, in Python or Cython; a name imported from a package is one."""
    text = file.read_text()
    if file.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.lineno, node.module
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
            elif isinstance(node, ast.Call) and "import_module" in (
                getattr(node.func, "attr", ""),
                getattr(node.func, "id", ""),
            ):
                yield from ((node.lineno, a.value) for a in node.args if isinstance(a, ast.Constant))
        return
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"\s*from\s+([\w.]+)\s+c?import\s+(.+)", line):
            yield number, match[1]
            names = re.findall(r"\w+", match[2].split("#")[0].replace(" as ", " "))
            yield from ((number, f"{match[1]}.{name}") for name in names)
        elif match := re.match(r"\s*c?import\s+([\w.]+)", line):
            yield number, match[1]


@once
def headers(file: Path) -> Iterator[tuple[int, Path]]:
    """Line and path of every header of ours that a C or Cython file includes."""
    for number, line in enumerate(file.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line) or re.match(r'\s*cdef extern from "([^"]+)"', line)
        if match:
            near = [file.parent / match[1], ROOT / match[1]]
            yield from ((number, path.resolve()) for path in near if path.is_file())


def folder(path: Path) -> str:
    """The folder of a file of ours; a file at the root stands for itself."""
    return str(path.relative_to(ROOT).parent if path.parent != ROOT else path.relative_to(ROOT))


def known(file: Path) -> Iterator[tuple[int, str]]:
    """Line and folder of all that a file imports or includes of ours."""
    for line, name in imports(file):
        parts = name.split(".")
        if parts[0] in OURS:
            while not ROOT.joinpath(*parts).is_dir() and len(parts) > 1:
                parts.pop()
            yield line, "/".join(parts)
    yield from ((line, folder(header)) for line, header in headers(file))


def test_folders_know_only_whom_they_may() -> None:
    """shm knows nobody, a floor knows those below it, and only routerd and bench know several processes."""
    also = {file: set(more) for file, *more in (line.split() for line in ALSO_KNOW)}
    wrong = [
        f"{place(file, line)}: {folder(file)} must not know {other}"
        for file in sources(".py", ".pyx", ".pxd", ".pxi", ".h", ".c")
        if folder(file) in MAY_IMPORT
        for line, other in known(file)
        if other not in {folder(file)} | MAY_IMPORT[folder(file)] | also.get(str(file.relative_to(ROOT)), set())
    ]
    assert not wrong, "\n".join(wrong)


def test_no_two_folders_of_the_core_know_each_other() -> None:
    """What two planes share stands in core/links, below both."""
    core = {one: {other for other in known if other.startswith("core")} for one, known in MAY_IMPORT.items()}
    assert not [(one, other) for one, known in core.items() for other in known if one in core.get(other, set())]


def test_each_folder_of_the_router_has_its_line() -> None:
    """One that has none could know all."""
    ours = {folder(file) for file in sources(".py", ".pyx", ".h", ".c") if package(file) in OURS}
    assert not {one for one in ours if not one.startswith("bench")} - set(MAY_IMPORT)


def test_no_file_is_longer_than_a_reader_holds_in_mind() -> None:
    """A longer one hides a subject that wants a file of its own."""
    lengths = [(len(file.read_text().splitlines()), file) for file in sources(*CODE)]
    wrong = [f"{file.relative_to(ROOT)}: {n} lines" for n, file in lengths if n > LONGEST_FILE]
    assert not wrong, "\n".join(wrong)


# Constructors of AMQP values as bare numbers, and numbers put together by hand, highest octet first.
AMQP_BY_HAND = re.compile(
    r"\b0x(?:53|4[1235]|5[0-6]|[abcd][01]|[ab]3|[ef]0)u?\b|\\x(?:53|[abcd][01]|[ab]3)"
    r"|<< *24 *\|.*<< *16|>> *24\).*>> *16\)|\b(\S+) = \1 << 8 \||>> 8 \* \(|= 24; \w+ >= 0"
    r"|\] << 8 \| [\w>.-]+\[[^\]]+\](?! *<<)|>> 8\)[,;] .*\(uint8_t\) \w+(?: \}|;)"
)
AMQP_ELSEWHERE = {"shm/codec/amqp.h": "the codec", "shm/codec/utf8.h": "first octets of characters"}


def test_amqp_is_spelled_in_one_place() -> None:
    """C names constructors and reads numbers by shm/codec/amqp.h: each other decoder is one more to get wrong."""
    wrong = [
        f"{place(file, number)}: {line.strip()[:80]} (name it, or use the codec: shm/codec/amqp.h)"
        for file in sources(".h", ".c", ".pyx", ".pxi")
        if str(file.relative_to(ROOT)) not in AMQP_ELSEWHERE
        for number, line in lines(file, AMQP_BY_HAND)
    ]
    assert not wrong, "\n".join(wrong)


THE_LANES = re.compile(
    r"\bpn_(delivery|disposition|work_head|event_delivery)|\bPN_(DELIVERY|LINK_FLOW)\b"
    r"|\bpn_link_(credit|queued|unsettled|flow|drain|set_drain|get_drain|draining|drained|offered|available|current"
    r"|advance|send|recv)\b"
    r"|\bpn_session_(incoming_bytes|outgoing_bytes|remote_incoming_window|[gs]et_\w*_capacity|set_outgoing_window)\b"
    r"|\bpn_transport_get_frames"
)


def test_the_engine_is_not_asked_for_deliveries_or_credit() -> None:
    """It sees no TRANSFER, FLOW or DISPOSITION: what it says of them is wrong, and asking makes it write some."""
    wrong = [
        f"{place(file, number)}: {line.strip()[:80]} (workers/session has these)"
        for file in sources(".h", ".c", ".pyx", ".pxi", ".pxd")
        if file.is_relative_to(ROOT / "workers")
        for number, line in lines(file, THE_LANES)
    ]
    assert not wrong, "\n".join(wrong)


def parameters(text: str) -> list[str]:
    """Positional parameters of a list that begins at the front, after its bracket, without ``self``."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0:
            break
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    names = [part.strip() for part in parts]
    ends = [at for at, name in enumerate(names) if name == "*" or re.match(r"\*+\w", name)]
    return [name for name in names[: min(ends, default=None)] if name not in ("", "/", "self", "cls", "void")]


def functions(file: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Line, name and positional parameters of every function in Python, Cython or C."""
    text = re.sub(r"\"[^\"\n]*\"|'[^'\n]*'|#.*|/\*.*?\*/", "", file.read_text())
    for head in FUNCTION[file.suffix in (".c", ".h")].finditer(text):
        yield text.count("\n", 0, head.start()) + 1, head[1], parameters(text[head.end() :])


def test_no_function_takes_more_than_seven_positional_parameters() -> None:
    """What belongs together is a struct. Settings of a constructor are given by name."""
    found = [
        (place(file, line), name, len(given))
        for file in sources(".py", ".pyi", ".pyx", ".pxi", ".c", ".h")
        for line, name, given in functions(file)
    ]
    assert len(found) > 5000, "they are found"
    wrong = [f"{where}: {name} takes {number}" for where, name, number in found if number > MOST_PARAMETERS]
    assert not wrong, "\n".join(wrong)


def test_no_line_of_c_is_longer_than_a_screen() -> None:
    """Two files side by side are how a change is read."""
    wrong = [
        f"{place(file, number)}: {len(line)} columns"
        for file in sources(".h", ".c")
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if len(line) > LONGEST_LINE
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("pattern", BANNED)
def test_nothing_is_left_for_later_or_silenced_without_a_reason(pattern: str) -> None:
    """Each banned word with what to do instead."""
    wrong = [
        f"{place(file, number)}: {line.strip()[:80]} ({BANNED[pattern]})"
        for file in tracked()
        if file.suffix in (*CODE, ".md", ".toml", ".txt", "") and file != Path(__file__)
        for number, line in lines(file, re.compile(pattern))
    ]
    assert not wrong, "\n".join(wrong)


def test_every_module_is_used() -> None:
    """A module that nothing of ours imports or starts is dead."""
    used = {name for file in sources(".py", ".pyx", ".pxd", ".pxi") for _, name in imports(file)}
    ours = [file for file in sources(".py", ".pyx") if package(file) in OURS]
    dead = [
        str(file.relative_to(ROOT))
        for file in ours
        if file.name != "__init__.py" and module(file) not in STARTED and module(file) not in used
    ]
    assert not dead, "\n".join(dead)


def test_every_header_is_used() -> None:
    """A header that nothing includes is dead."""
    used = {header for file in sources(".h", ".c", ".pyx", ".pxd", ".pxi") for _, header in headers(file)}
    dead = [str(file.relative_to(ROOT)) for file in sources(".h") if package(file) in OURS and file not in used]
    assert not dead, "\n".join(dead)


def test_an_exception_is_that_of_a_file_that_exists() -> None:
    """Whoever moves or removes the file takes its exception along."""
    assert not [file for file in (entry.split()[0] for entry in ALSO_KNOW) if not (ROOT / file).is_file()]


def test_what_is_started_exists() -> None:
    """The list of started modules names no ghosts."""
    modules = {module(file) for file in sources(".py")}
    assert set(STARTED) <= modules


def test_no_other_distribution_provides_our_packages() -> None:
    """`core` and `shm` are common names: a distribution of the same name could overwrite ours."""
    provided = importlib.metadata.packages_distributions()
    rivals = {name: set(provided.get(name, ())) - {"routerd"} for name in OURS}
    assert not any(rivals.values()), rivals


def test_every_installed_version_is_pinned() -> None:
    """`make build` gives the same today and next year."""
    pins = {
        re.sub(r"[-_.]+", "-", name).lower()
        for name in re.findall(r"(?m)^([\w.-]+)==", (ROOT / "constraints.txt").read_text())
    }
    installed = {
        re.sub(r"[-_.]+", "-", distribution.name).lower() for distribution in importlib.metadata.distributions()
    }
    assert installed - pins - {"pip", "routerd"} == set()


def test_what_tests_share_is_imported_by_its_whole_name() -> None:
    """No test edits sys.path: tests.support and tests.model hold what is no test, tests.fuzz its own targets."""
    modules = [file for file in sources(".py") if package(file) == "tests" and file != Path(__file__)]
    wrong = [
        place(file, number)
        for file in modules
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if "sys.path" in line
    ]
    wrong += [
        f"{place(file, 1)}: belongs into tests/support or tests/model"
        for file in modules
        if not file.stem.startswith("test_") and file.name not in ("conftest.py", "__init__.py")
        if file.relative_to(ROOT).parts[1] not in ("support", "model", "fuzz")
    ]
    assert not wrong, "\n".join(wrong)


def test_what_is_no_text_is_a_picture_or_a_recording() -> None:
    """What others have built belongs into no repository."""
    others = [file for file in tracked() if file.suffix not in (".png", ".flight") and b"\0" in file.read_bytes()]
    assert not [str(file.relative_to(ROOT)) for file in others]
