"""One log for all processes: stdlib logging, set up from the log entities of the configuration.

    2026-11-21 06:34:17.123456 +0000 SERVER (info) worker 0 serves pid=4713 generation=1 process=supervisor

Time, module and level have qdrouterd's form and order, so tools for its log read this one; the end of a line
names the process that wrote it. With `format: json` a line is an object. Each line reaches its file in one
write() with O_APPEND, so lines of several processes never mix. Control characters in text from outside are
escaped, so it cannot forge a line. The process's journal (shm/memory/journal.py) keeps each line as well.
"""

import json
import logging
import math
import syslog
import time
from collections import deque
from collections.abc import Container, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from routerd.log.journald import STDERR, STDOUT, for_stderr, is_journal, marked, priority
from routerd.log.output import LogError, Output, SystemLog
from shm.contract.text import printable
from shm.memory.journal import LEVELS, MODULES, NOTICE, TRACE, Journal

if TYPE_CHECKING:
    from shm.contract.control import LogSetup

__all__ = ["LEVELS", "MODULES", "NOTICE", "TRACE", "LogError", "configure", "event", "keep_in"]

ALWAYS = "always"  # attribute of a record that is written at any level
LONGEST = 2000  # characters of a line, in which peers may have their names
EARLY = 200  # lines kept until the journal exists
SHORTEST = 3  # the fewest letters that name a level

_NAMES = {number: name for name, number in LEVELS.items()}
_INFO_AND_ABOVE = frozenset(number for number in _NAMES if number >= logging.INFO)
_NOTHING = logging.CRITICAL + 1

_STREAMS = {"stderr": STDERR, "stdout": STDOUT}


def parse_enable(text: str) -> frozenset[int] | None:
    """Return the levels in an `enable` text, None for `default`. Raises ValueError for an unknown level.

    `info` is that level alone, `info+` it and all above, `info-` it and all below; `none`, or an empty text,
    is no level. Commas or blanks separate several. The first letters of a name suffice: `warn`, `err`.
    """
    if text.strip().lower() == "default":
        return None
    enabled: set[int] = set()
    for word in text.replace(",", " ").split():
        name = word.lower()
        if name == "none":
            continue
        level = _level(name[:-1] if name[-1] in "+-" else name)
        if level is None:
            raise ValueError(f"{word[:40]!r} is no level; give {', '.join(LEVELS)}, none or default")
        enabled.add(level)
        sign = name[-1]
        enabled.update(n for n in _NAMES if (n > level and sign == "+") or (n < level and sign == "-"))
    return frozenset(enabled)


def _level(name: str) -> int | None:
    """Return a level by its first letters, at least three, as qdrouterd does."""
    found = [level for known, level in LEVELS.items() if known.startswith(name)]
    return found[0] if len(name) >= SHORTEST and len(found) == 1 else None


def event(logger: logging.Logger, level: int, text: str, **fields: object) -> None:
    """Log `text` and its fields as `key=value`; a value that is not one plain word is quoted."""
    if logger.isEnabledFor(level):
        words = [text, *(f"{key}={_field(value)}" for key, value in fields.items())]
        logger.log(level, "%s", " ".join(words), stacklevel=2, extra={"event": text, "fields": fields})


def configure(logs: "Iterable[LogSetup]", process: str, *, starting: bool = False) -> list[LogError]:
    """Set up this process's log from log entities; `process` stands at the end of every line.

    A later call replaces the set-up. Raises LogError if a new file cannot be opened, and then keeps the old
    set-up. A process that is ``starting`` continues instead, and gets the errors as the result.
    """
    by_module = {setup.module: setup for setup in logs}
    outputs = _Outputs(None if starting else _current.open)
    try:
        handlers = {module: _handler(by_module, module, process, outputs) for module in MODULES}
    except LogError:
        outputs.close()
        raise
    logging.addLevelName(TRACE, "TRACE")
    logging.addLevelName(NOTICE, "NOTICE")
    for module, handler in handlers.items():
        logger = logging.getLogger(module)
        logger.propagate = False
        _attach(logger, handler)
    _attach(logging.getLogger(), handlers["DEFAULT"])
    _current.close()
    _current.open = outputs.open
    return [output.shut for output in outputs.open.values() if output.shut is not None]


class _Outputs:
    """The outputs of one set-up, each file opened once. Those in ``before`` may be shut; None: all may."""

    def __init__(self, before: Container[str] | None = ()) -> None:
        self.open: dict[str, Output] = {}
        self._before = before

    def get(self, name: str) -> Output:
        """Return an output, open for appending. Raises LogError."""
        if name not in self.open:
            self.open[name] = Output(name, needed=self._before is not None and name not in self._before)
        return self.open[name]

    def close(self) -> None:
        for output in self.open.values():
            output.close()
        self.open.clear()


class _Kept:
    """The lines for GET-LOG: in the journal, or here until it exists."""

    def __init__(self) -> None:
        self._early: deque[list[object]] = deque(maxlen=EARLY)
        self._journal: Journal | None = None

    def add(self, line: list[object]) -> None:
        if self._journal is None:
            self._early.append(line)
            return
        try:
            self._journal.write(line)
        except ValueError:  # the shared memory is closed as the router ends
            self._journal = None

    def move(self, journal: Journal | None) -> None:
        self._journal = journal
        while journal is not None and self._early:
            journal.write(self._early.popleft())


_current = _Outputs()
_system = SystemLog()
_kept = _Kept()


def keep_in(journal: Journal | None) -> None:
    """Keep this process's lines in its journal, earlier ones included; with None keep none."""
    _kept.move(journal)


class _Form(NamedTuple):
    """The form of a line."""

    timestamp: bool
    source: bool
    json: bool


class _Handler(logging.Handler):
    """Writes the enabled levels of one module."""

    def __init__(self, enabled: frozenset[int], process: str, form: _Form) -> None:
        super().__init__()
        self.enabled = enabled
        self._name = process
        self._process = f"process={_field(process)}"
        self._form = form

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, ALWAYS, False):
            return True
        # A level between the named ones counts as the named one below it.
        return max((n for n in _NAMES if n <= record.levelno), default=TRACE) in self.enabled

    def emit(self, record: logging.LogRecord) -> None:
        self.deliver(record)
        module, level, text = self._parts(record)
        _kept.add([module, level, text, record.filename, record.lineno, record.created])

    def deliver(self, record: logging.LogRecord) -> None:
        """Write the line to its output."""
        raise NotImplementedError

    def _parts(self, record: logging.LogRecord) -> tuple[str, str, str]:
        module = record.name if record.name in MODULES else "DEFAULT"
        level = _NAMES.get(record.levelno, record.levelname.lower())
        return module, level, f"{_shown(record)} {self._process}"

    def object(self, record: logging.LogRecord, form: _Form) -> dict[str, object]:
        """Return the parts of a line by name."""
        module, level, _ = self._parts(record)
        told: dict[str, object] = {"level": level, "module": module, "process": self._name}
        if form.timestamp:
            told = {"time": datetime.fromtimestamp(record.created).astimezone().isoformat(), **told}
        told["message"] = getattr(record, "event", None) or _cut(record, record.getMessage())
        if fields := getattr(record, "fields", None):
            told["fields"] = fields
        if form.source:
            told["source"] = f"{record.filename}:{record.lineno}"
        if record.exc_info:
            told["traceback"] = logging.Formatter().formatException(record.exc_info)
        return told

    def format(self, record: logging.LogRecord) -> str:
        return self.formed(record, self._form)

    def formed(self, record: logging.LogRecord, form: _Form) -> str:
        """Return the text of a record: one line or several."""
        if form.json:
            return json.dumps(_plain(self.object(record, form)))
        words = ["{} ({}) {}".format(*self._parts(record))]
        if form.timestamp:
            words.insert(0, _time(record.created))
        if form.source:
            words.append(f"({record.filename}:{record.lineno})")
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            words.append("".join(f"\n  {printable(line)}" for line in trace.splitlines()))
        return " ".join(words)


def _shown(record: logging.LogRecord) -> str:
    """Return the text of a line."""
    return _cut(record, printable(_cut(record, record.getMessage())))


def _cut(record: logging.LogRecord, text: str) -> str:
    """Return as much of a text as a line has: what is below info, or was asked for, has it all."""
    if len(text) <= LONGEST or record.levelno < logging.INFO or getattr(record, ALWAYS, False):
        return text
    return f"{text[: LONGEST - 3]}..."


class _FileHandler(_Handler):
    """Writes to a file; ``instead`` is the form of a line on standard error while the file is shut."""

    def __init__(self, output: Output, enabled: frozenset[int], process: str, form: _Form, instead: _Form) -> None:
        super().__init__(enabled, process, form)
        self._output = output
        self._instead = instead
        self._journal = _is_journal(output.name)

    def deliver(self, record: logging.LogRecord) -> None:
        line = self._line(record)
        if gap := self._output.gap:
            line = f"{self._line(_missing(gap, self._output.why))}\n{line}"
        shut = self._output.shut is not None  # writing may open it
        self._output.write(line, for_stderr(self.formed(record, self._instead), record.levelno) if shut else "")

    def _line(self, record: logging.LogRecord) -> str:
        text = self.format(record)
        return marked(text, record.levelno) if self._journal else text


class _SyslogHandler(_Handler):
    def deliver(self, record: logging.LogRecord) -> None:
        gap, why = _system.lost, _system.why
        if self._send(record) and gap:
            self._send(_missing(gap, why))

    def _send(self, record: logging.LogRecord) -> bool:
        return _system.write(priority(record.levelno) | syslog.LOG_DAEMON, self.format(record))


def _missing(gap: int, why: str) -> logging.LogRecord:
    """Return the record that precedes the first line after a gap."""
    text = f"{gap} log lines could not be written: {why}"
    return logging.LogRecord("SERVER", logging.WARNING, __file__, 0, text, (), None)


def _handler(by_module: "dict[str, LogSetup]", module: str, process: str, outputs: _Outputs) -> _Handler:
    setups = [by_module[name] for name in (module, "DEFAULT") if name in by_module]
    levels = (parse_enable(setup.enable) for setup in setups if setup.enable is not None)
    enabled = next((named for named in levels if named is not None), _INFO_AND_ABOVE)
    output = next((setup.output_file for setup in setups if setup.output_file), "stderr")
    as_json = next((setup.format for setup in setups if setup.format), "text") == "json"
    timed = output == "syslog" or _is_journal(output)  # syslog and the journal keep the time
    wanted = _first((setup.include_timestamp for setup in setups), as_json or not timed)
    beside = _first((setup.include_timestamp for setup in setups), as_json or not _is_journal("stderr"))
    source = _first((setup.include_source for setup in setups), False)
    if output == "syslog":
        return _SyslogHandler(enabled, process, _Form(wanted and as_json, source, as_json))
    form, instead = _Form(wanted, source, as_json), _Form(beside, source, as_json)
    return _FileHandler(outputs.get(output), enabled, process, form, instead)


def _is_journal(output: str) -> bool:
    return output in _STREAMS and is_journal(_STREAMS[output])


def _first(values: Iterable[bool | None], default: bool) -> bool:
    return next((value for value in values if value is not None), default)


def _attach(logger: logging.Logger, handler: _Handler) -> None:
    for old in logger.handlers[:]:
        if isinstance(old, _Handler):
            logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(min(handler.enabled, default=_NOTHING))


def _field(value: object) -> str:
    text = str(value)
    if text and text.isprintable() and not any(character in ' "=' for character in text):
        return text
    return json.dumps(text, ensure_ascii=False)


def _plain(value: object) -> object:
    """Return a value that JSON can hold; octets that are not text become escapes."""
    match value:
        case None | bool() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case dict():
            return {_text(name): _plain(its) for name, its in value.items()}
    return _text(value)


def _text(value: object) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode()


def _time(seconds: float) -> str:
    local = time.localtime(seconds)
    return time.strftime(f"%Y-%m-%d %H:%M:%S.{int(seconds % 1 * 1_000_000):06d} %z", local)
