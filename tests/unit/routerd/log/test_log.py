"""The log: which levels of which module, where to, and one whole line per event."""

import errno
import json
import logging
import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from routerd.config.rules.relations import unusable_log
from routerd.log import log, output


class Setup(Struct, frozen=True):
    """What `configure` needs of a log entity."""

    module: str
    enable: str | None = None
    include_timestamp: bool | None = None
    include_source: bool | None = None
    output_file: str | None = None
    format: str | None = None


def logged(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


LEVELS = ["trace", "debug", "info", "notice", "warning", "error", "critical"]


@pytest.mark.parametrize(
    ("enable", "names"),
    [
        ("info+", LEVELS[2:]),
        ("info", ["info"]),
        ("trace,debug,warning+", ["trace", "debug", "warning", "error", "critical"]),
        ("none", []),
        ("none, error", ["error"]),
        ("NOTICE", ["notice"]),
        ("critical+", ["critical"]),
        ("trace+", LEVELS),
        ("debug-, Error", ["trace", "debug", "error"]),
        ("TRACE , Error info", ["trace", "info", "error"]),
        ("", []),
        ("info,,error", ["info", "error"]),
        ("warn+", ["warning", "error", "critical"]),
        ("crit, ERR", ["error", "critical"]),
    ],
)
def test_enable_selects_exactly_these_levels(enable: str, names: list[str], tmp_path: Path) -> None:
    path = tmp_path / "log"
    setup = Setup("SERVER", enable=enable, include_timestamp=False, output_file=str(path))
    log.configure([setup], "worker-0")
    for name in LEVELS:
        logging.getLogger("SERVER").log(log.LEVELS[name], "text")
    assert logged(path) == [f"SERVER ({name}) text process=worker-0" for name in names]


@pytest.mark.parametrize("enable", ["in", "info++", "+", "info error none5", "5"])
def test_unknown_level(enable: str) -> None:
    with pytest.raises(ValueError, match="is no level; give trace, debug"):
        log.parse_enable(enable)


def test_modules_follow_default_until_they_have_their_own(tmp_path: Path) -> None:
    """What a module's entity leaves out, and all of a module without one, is as in DEFAULT."""
    default, own = tmp_path / "default", tmp_path / "own"
    log.configure(
        [
            Setup("DEFAULT", enable="error+", include_timestamp=False, output_file=str(default)),
            Setup("SERVER", enable="default", output_file=str(own)),
            Setup("ROUTER_CORE", enable="debug"),
        ],
        "core",
    )
    for name in ("SERVER", "ROUTER_CORE", "AGENT", "some.library"):
        for level in (logging.DEBUG, logging.ERROR):
            logging.getLogger(name).log(level, name)
    assert logged(own) == ["SERVER (error) SERVER process=core"]
    assert logged(default) == [
        "ROUTER_CORE (debug) ROUTER_CORE process=core",
        "AGENT (error) AGENT process=core",
        "DEFAULT (error) some.library process=core",
    ]


def test_default_is_info_to_stderr_with_the_time(capfd: pytest.CaptureFixture[str]) -> None:
    log.configure([], "supervisor")
    logging.getLogger("ROUTER").debug("not this")
    logging.getLogger("ROUTER").info("up")
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} [+-]\d{4} ROUTER \(info\) up process=supervisor\n", err)


def test_the_line_that_tools_for_qdrouterd_wait_for(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing stands between the level and the text."""
    log.configure([], "supervisor")
    log.event(logging.getLogger("SERVER"), log.NOTICE, "Operational, 2 Threads Running (process ID 4711)")
    _, err = capfd.readouterr()
    waited = re.search(r"SERVER \(notice\) Operational, (\d+) Threads Running \(process ID (\d+)\)", err)
    assert waited is not None
    assert waited.groups() == ("2", "4711")


def test_fields_and_source(capfd: pytest.CaptureFixture[str]) -> None:
    """Fields follow as key=value, quoted where they are not one plain word; the source is the caller's."""
    log.configure([Setup("DEFAULT", include_timestamp=False, include_source=True, output_file="stdout")], "core")
    log.event(logging.getLogger("SERVER"), logging.INFO, "100% open", host="::1", name="a b", empty="", q='"', n=3)
    out, _ = capfd.readouterr()
    assert re.fullmatch(
        r'SERVER \(info\) 100% open host=::1 name="a b" empty="" q="\\"" n=3 process=core'
        r" \(test_log\.py:\d+\)\n",
        out,
    )


def test_text_from_outside_cannot_forge_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log.configure([Setup("DEFAULT", include_timestamp=False, output_file=str(path))], "core")
    log.event(logging.getLogger("SERVER"), logging.INFO, "a\nb\x1b[31m\u2028", container="x\nSERVER (info) y")
    logging.getLogger("SERVER").info("\udc80")
    assert path.read_bytes().splitlines() == [
        rb'SERVER (info) a\nb\x1b[31m\u2028 container="x\nSERVER (info) y" process=core',
        rb"SERVER (info) \x80 process=core",
    ]


@pytest.mark.parametrize("form", [None, "json"], ids=["text", "json"])
def test_a_line_ends_though_a_peer_has_a_long_name(form: str | None, tmp_path: Path) -> None:
    """Also one that has to be escaped; what was asked for at level debug is whole."""
    path = tmp_path / "log"
    log.configure([Setup("DEFAULT", enable="debug+", output_file=str(path), format=form)], "core")
    for level in (logging.INFO, logging.DEBUG):
        logging.getLogger("SERVER").log(level, "connection from %s", "\x80" * 50_000)
    short, whole = path.read_text().splitlines()
    assert len(short) < (14_000 if form else 2_100)
    assert "..." in short
    assert len(whole) > 50_000


def test_traceback_follows_its_line_indented(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log.configure([Setup("DEFAULT", include_timestamp=False, output_file=str(path))], "core")
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        logging.getLogger("ERROR").exception("failed")
    first, *rest = logged(path)
    assert first.rstrip() == "ERROR (error) failed process=core"
    assert all(line.startswith("  ") for line in rest)
    assert rest[-1].strip() == "RuntimeError: broken"


def test_unwritable_output_is_a_clear_error_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log.configure([Setup("DEFAULT", include_timestamp=False, output_file=str(path))], "core")
    with pytest.raises(log.LogError, match=r"cannot be written .*; give a file in a directory"):
        log.configure([Setup("DEFAULT", output_file=str(tmp_path / "none" / "log"))], "core")
    logging.getLogger("SERVER").info("still here")
    assert logged(path) == ["SERVER (info) still here process=core"]


def test_configuring_again_replaces_and_leaks_no_file(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        log.configure([Setup("DEFAULT", include_timestamp=False, output_file=str(tmp_path / str(number)))], "core")
    assert len(os.listdir("/proc/self/fd")) == before + 1
    logging.getLogger("SERVER").info("once")
    assert logged(tmp_path / "18") == []
    assert logged(tmp_path / "19") == ["SERVER (info) once process=core"]


def test_a_full_disk_stops_nobody() -> None:
    log.configure([Setup("DEFAULT", output_file="/dev/full")], "core")
    logging.getLogger("SERVER").info("lost")


WRITER = """
import logging, sys
from routerd.log import log
class Setup:
    module, enable, include_timestamp, include_source, output_file = "DEFAULT", None, False, None, sys.argv[1]
    format = None
log.configure([Setup], sys.argv[2])
for number in range(300):
    logging.getLogger("SERVER").info("x" * (number * 6))
"""


def test_lines_of_several_processes_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "log"
    root = Path(__file__).parents[4]
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, name], cwd=root) for name in ("one", "two")]
    assert [writer.wait() for writer in writers] == [0, 0]
    sizes = range(0, 300 * 6, 6)
    expected = {f"SERVER (info) {'x' * size} process={name}" for name in ("one", "two") for size in sizes}
    lines = logged(path)
    assert len(lines) == 600
    assert set(lines) == expected


def test_import_is_light() -> None:
    """Children import the log; they must not pay for the command line or the configuration."""
    code = "import sys, routerd.log.log; print({'click', 'rich', 'msgspec', 'routerd.config'} & sys.modules.keys())"
    root = Path(__file__).parents[4]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    """Standard error as the service manager sets it up for the journal."""
    stream = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{stream.st_dev}:{stream.st_ino}")
    return capfd


def test_each_line_in_the_journal_has_its_priority(journal: pytest.CaptureFixture[str]) -> None:
    """Also those of a traceback; the journal keeps the time itself, but for who asks for it in the line."""
    log.configure([Setup("DEFAULT", enable="trace+"), Setup("HTTP", include_timestamp=True)], "core")
    for name, level in log.LEVELS.items():
        logging.getLogger("SERVER").log(level, name)
    try:
        raise ValueError("one\ntwo")
    except ValueError:
        logging.getLogger("SERVER").critical("it ends", exc_info=True)
    logging.getLogger("HTTP").warning("timed")
    lines = journal.readouterr().err.splitlines()
    numbers = [7, 7, 6, 5, 4, 3, 2]
    assert lines[:7] == [
        f"<{number}>SERVER ({name}) {name} process=core" for number, name in zip(numbers, log.LEVELS, strict=True)
    ]
    assert lines[7] == "<2>SERVER (critical) it ends process=core "
    assert len(lines[8:-1]) >= 4
    assert all(line.startswith("<2>  ") for line in lines[8:-1])
    assert re.fullmatch(r"<4>20\S+ \S+ \S+ HTTP \(warning\) timed process=core", lines[-1])


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_that_go_to_the_journal_instead_of_a_file_have_their_priority(
    form: str, tmp_path: Path, journal: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if standard error had been configured; in the file, once it is there, they look as in any file."""
    monkeypatch.setattr(output, "LOOK_SECONDS", 0.0)
    path = tmp_path / "later" / "log"
    log.configure([Setup("DEFAULT", output_file=str(path), format=form)], "core", starting=True)
    logging.getLogger("SERVER").error("one")
    (line,) = journal.readouterr().err.splitlines()
    assert line.startswith("<3>")
    if form == "json":
        assert json.loads(line[3:])["message"] == "one"
    else:
        assert line == "<3>SERVER (error) one process=core"
    path.parent.mkdir()
    logging.getLogger("SERVER").error("two")
    assert journal.readouterr().err == ""
    start = r'\{"time": "20' if form == "json" else r"20\S+ \S+ \S+ SERVER \("
    assert [bool(re.match(start, line)) for line in logged(path)] == [True, True]


def test_a_disk_that_is_read_only_is_told_of_with_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permissions do not: under systemd it is ProtectSystem= that makes it so."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    path = str(tmp_path / "log")
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(log.LogError, match=r"\(Read-only file system\); .*ProtectSystem=.*/var/log/routerd"):
            log.configure([Setup("DEFAULT", output_file=path)], "core")
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda *_: False)
        assert "permissions" in unusable_log(path)
        patched.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
        assert re.search(r"read-only, .*ProtectSystem=.*/var/log/routerd", unusable_log(path))
        assert "permissions" not in unusable_log(path)


@pytest.mark.parametrize("stream", ["", "1:2", "nonsense", "5:\N{SUPERSCRIPT TWO}"])
def test_standard_error_that_is_no_journal_has_no_priorities(
    stream: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Who has started the router may have put something else in its place, and left the variable."""
    monkeypatch.setenv("JOURNAL_STREAM", stream)
    log.configure([Setup("DEFAULT")], "core")
    logging.getLogger("SERVER").error("text")
    assert re.match(r"\d{4}-", capfd.readouterr().err)


def test_a_line_in_json_is_an_object(tmp_path: Path) -> None:
    """With the documented members, and those of an event beside its text."""
    path = tmp_path / "log"
    setup = Setup("DEFAULT", include_source=True, output_file=str(path), format="json")
    log.configure([setup, Setup("HTTP", include_timestamp=False, include_source=False)], "worker-0")
    server = logging.getLogger("SERVER")
    log.event(server, log.NOTICE, "worker 0 serves", pid=4713, why=None, part=0.5, odd=float("nan"), at=path)
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("HTTP").error("it %s", "ends", exc_info=True)
    first, second = (json.loads(line) for line in logged(path))
    assert datetime.fromisoformat(first.pop("time")).tzinfo is not None
    assert re.fullmatch(r"test_log\.py:\d+", first.pop("source"))
    assert first == {
        "level": "notice",
        "module": "SERVER",
        "process": "worker-0",
        "message": "worker 0 serves",
        "fields": {"pid": 4713, "why": None, "part": 0.5, "odd": "nan", "at": str(path)},
    }
    assert second.pop("traceback").endswith("ValueError: no")
    assert second == {"level": "error", "module": "HTTP", "process": "worker-0", "message": "it ends"}


@given(st.text(st.characters()), st.binary())
def test_a_line_in_json_is_valid_whatever_it_tells(text: str, octets: bytes) -> None:
    """Octets that are no text, control characters, separators of lines: one line of ASCII, and one object."""
    handler = log._Handler(frozenset(), "core", log._Form(timestamp=True, source=False, json=True))
    record = logging.LogRecord("SERVER", logging.INFO, "file", 1, "%s", (text,), None)
    record.fields = {text: octets.decode("utf-8", "surrogateescape")}
    line = handler.format(record)
    assert line.isascii()
    assert line.isprintable()
    told = json.loads(line)
    json.dumps(told, ensure_ascii=False).encode()  # no half of a pair of surrogates
    assert told["message"] == text.encode("utf-8", "backslashreplace").decode()
    assert len(told["fields"]) == 1
