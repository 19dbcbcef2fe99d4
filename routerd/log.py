"""One log for all processes: stdlib logging, set up from the log entities of the configuration.

    2026-11-21 06:34:17.123456 +0000 SERVER (info) worker 0 serves pid=4713 generation=1 process=supervisor

Time, module and level stand as in qdrouterd's log and its modules name the loggers, so what reads that log
reads this one; the process that wrote a line is named behind its text. Every line reaches its file in one
write() with O_APPEND, so lines of several processes never mix. Text from outside cannot
forge a line: control characters are written as escapes.
"""

import contextlib
import json
import logging
import os
import syslog
import time
from collections.abc import Iterable
from typing import Protocol

MODULES = (
    "ROUTER", "ROUTER_CORE", "ROUTER_HELLO", "ROUTER_LS", "ROUTER_MA", "MESSAGE", "SERVER", "AGENT",
    "AUTHSERVICE", "CONTAINER", "ERROR", "POLICY", "HTTP", "CONN_MGR", "PYTHON", "PROTOCOL", "DEFAULT",
)  # fmt: skip

TRACE = 5
NOTICE = 25
LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": NOTICE,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
_NAMES = {number: name for name, number in LEVELS.items()}
_INFO_AND_ABOVE = frozenset(number for number in _NAMES if number >= logging.INFO)
_NOTHING = logging.CRITICAL + 1

# level → syslog priority; critical is what is left
_PRIORITIES = {TRACE: 7, logging.DEBUG: 7, logging.INFO: 6, NOTICE: 5, logging.WARNING: 4, logging.ERROR: 3}


class LogSetup(Protocol):
    """What is needed of a log entity; an attribute that is None follows the DEFAULT module."""

    @property
    def module(self) -> str: ...
    @property
    def enable(self) -> str | None: ...
    @property
    def include_timestamp(self) -> bool | None: ...
    @property
    def include_source(self) -> bool | None: ...
    @property
    def output_file(self) -> str | None: ...


class LogError(Exception):
    """A log cannot be written to where the configuration wants it."""


def parse_enable(text: str) -> frozenset[int] | None:
    """The levels that an `enable` text names, None for `default`. Raises ValueError for an unknown level.

    `info` is that level alone, `info+` that level and all above, `none` no level; commas join several.
    """
    if text.strip().lower() == "default":
        return None
    enabled: set[int] = set()
    for word in text.split(","):
        name = word.strip().lower()
        if name == "none":
            continue
        level = LEVELS.get(name.removesuffix("+"))
        if level is None:
            raise ValueError(f"{word.strip()[:40]!r} is no level; give {', '.join(LEVELS)}, none or default")
        enabled.update(
            number for number in _NAMES if number == level or (number > level and name.endswith("+"))
        )
    return frozenset(enabled)


def event(logger: logging.Logger, level: int, text: str, **fields: object) -> None:
    """Log `text` and its fields as `key=value`; a value that is not one plain word is quoted."""
    if logger.isEnabledFor(level):
        words = [text, *(f"{key}={_field(value)}" for key, value in fields.items())]
        logger.log(level, "%s", " ".join(words), stacklevel=2)


def configure(logs: Iterable[LogSetup], process: str) -> None:
    """Send the log of this process where the log entities say; `process` names it at the end of every line.

    May be called again; the new set-up replaces the old one. Raises LogError when an output file cannot be
    opened, and then leaves the old set-up in place.
    """
    by_module = {setup.module: setup for setup in logs}
    outputs = _Outputs()
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
    _current.files = outputs.files


class _Outputs:
    """The open outputs of one set-up, each file opened once."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}

    def open(self, name: str) -> int:
        """The file descriptor of an output, opened for appending."""
        if name in ("stderr", "stdout"):
            return 2 if name == "stderr" else 1
        if name not in self.files:
            try:
                self.files[name] = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                raise LogError(
                    f"log outputFile {name!r} cannot be written ({reason}); "
                    "give a file in a directory that the router may write to, or stderr"
                ) from error
        return self.files[name]

    def close(self) -> None:
        for descriptor in self.files.values():
            os.close(descriptor)
        self.files.clear()


_current = _Outputs()


class _Handler(logging.Handler):
    """Writes the enabled levels of one module."""

    def __init__(self, enabled: frozenset[int], process: str, timestamp: bool, source: bool) -> None:
        super().__init__()
        self.enabled = enabled
        self._process = f"process={_field(process)}"
        self._timestamp = timestamp
        self._source = source

    def filter(self, record: logging.LogRecord) -> bool:
        # Levels between the named ones belong to the named one below.
        return max((n for n in _NAMES if n <= record.levelno), default=TRACE) in self.enabled

    def format(self, record: logging.LogRecord) -> str:
        module = record.name if record.name in MODULES else "DEFAULT"
        level = _NAMES.get(record.levelno, record.levelname.lower())
        words = [f"{module} ({level}) {printable(record.getMessage())} {self._process}"]
        if self._timestamp:
            words.insert(0, _time(record.created))
        if self._source:
            words.append(f"({record.filename}:{record.lineno})")
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            words.append("".join(f"\n  {printable(line)}" for line in trace.splitlines()))
        return " ".join(words)


class _FileHandler(_Handler):
    def __init__(
        self, descriptor: int, enabled: frozenset[int], process: str, timestamp: bool, source: bool
    ) -> None:
        super().__init__(enabled, process, timestamp, source)
        self._descriptor = descriptor

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record) + "\n"
        # A full disk or a closed terminal must not stop the router, and there is nowhere to say so.
        with contextlib.suppress(OSError):
            os.write(self._descriptor, line.encode("utf-8", "backslashreplace"))


class _SyslogHandler(_Handler):
    def emit(self, record: logging.LogRecord) -> None:
        priority = _PRIORITIES.get(record.levelno, syslog.LOG_CRIT)
        syslog.syslog(priority | syslog.LOG_DAEMON, self.format(record))


def _handler(by_module: dict[str, LogSetup], module: str, process: str, outputs: _Outputs) -> _Handler:
    setups = [by_module[name] for name in (module, "DEFAULT") if name in by_module]
    levels = (parse_enable(setup.enable) for setup in setups if setup.enable is not None)
    enabled = next((named for named in levels if named is not None), _INFO_AND_ABOVE)
    timestamp = _first((setup.include_timestamp for setup in setups), True)
    source = _first((setup.include_source for setup in setups), False)
    output = next((setup.output_file for setup in setups if setup.output_file), "stderr")
    if output == "syslog":
        return _SyslogHandler(enabled, process, False, source)  # syslog writes the time itself
    return _FileHandler(outputs.open(output), enabled, process, timestamp, source)


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


def printable(text: str) -> str:
    """The text in one line, with control characters and what cannot be encoded as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _time(seconds: float) -> str:
    local = time.localtime(seconds)
    return time.strftime(f"%Y-%m-%d %H:%M:%S.{int(seconds % 1 * 1_000_000):06d} %z", local)
