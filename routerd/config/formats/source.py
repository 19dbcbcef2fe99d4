"""The output of every parser: sections of settings with their lines, and mistakes."""

import errno
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from shm.contract.text import cause, printable


class Setting(Struct, frozen=True):
    """A `name: value` in a file."""

    name: str
    value: "Value"
    line: int


class Block(Struct, frozen=True):
    """The settings between one pair of braces, in file order; a name may occur twice."""

    settings: tuple[Setting, ...]
    line: int


class Array(Struct, frozen=True):
    """The values between one pair of brackets, and the line of each."""

    values: tuple["Value", ...]
    lines: tuple[int, ...]


_PASSWORD = re.compile(r"(passw\w*).+", re.IGNORECASE | re.DOTALL)

Value: TypeAlias = str | int | float | bool | Array | Block | None


class Section(Struct, frozen=True):
    """An entity in a file."""

    type: str
    block: Block
    line: int
    file: str


class Mistake(Struct, frozen=True, order=True):
    """A mistake in a file: `text` says what is wrong and what to write instead."""

    file: str
    line: int
    text: str
    warning: bool = False

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {'warning: ' if self.warning else ''}{printable(self.text)}"


class ConfigError(Exception):
    """A configuration that cannot start a router; `mistakes` holds all of them, warnings included."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes: tuple[Mistake, ...] = tuple(sorted(mistakes))
        super().__init__("\n".join(map(str, self.mistakes)))


class ConfigSyntaxError(Exception):
    """A parser cannot continue; `parse` turns this into the only mistake of the file."""

    def __init__(self, line: int, text: str) -> None:
        self.line = line
        self.text = text
        super().__init__(text)


def camel_case(name: str) -> str:
    """Return `idleTimeoutSeconds` for `idle-timeout-seconds`, and any other name unchanged."""
    return re.sub(r"-(\w)", lambda match: match.group(1).upper(), name)


def words(text: str | None) -> list[str]:
    """Return the words between commas or blanks."""
    return (text or "").replace(",", " ").split()


def listed(text: str | None) -> list[str]:
    """Return the parts of a text between commas, without the blanks around them."""
    return list(filter(None, map(str.strip, (text or "").split(","))))


def shown(value: object, limit: int = 60) -> str:
    """Return a value as messages quote it: printable, in one line, short, and without a password."""
    return printable(_PASSWORD.sub(r"\1…'", repr(plain(value))), limit)


def shown_of(name: str, value: object, *, as_it_is: bool = False) -> str:
    """Return a value as messages quote it, unless its name says that it is a password."""
    if "passw" in name.lower():
        return "what it is"
    return str(value) if as_it_is else shown(value)


def plain(value: object) -> object:
    """Return a value without lines: a block becomes a dict, in which the last of equal names counts."""
    if isinstance(value, Block):
        return {setting.name: plain(setting.value) for setting in value.settings}
    if isinstance(value, Array):
        return [plain(element) for element in value.values]
    return value


IRREGULAR: Final = "it is no regular file, and a reader of others may wait for ever"
MOST_OCTETS: Final = 16 << 20  # of a file; the longest configurations have a few MiB


def octets(file: str | os.PathLike[str], most: int = MOST_OCTETS) -> bytes:
    """Return the first ``most`` octets of a regular file.

    Raises OSError, also for a pipe or a device: whoever reads that may wait for ever.
    """
    with open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as opened:
        if not is_regular(opened.fileno()):
            raise OSError(errno.EINVAL, IRREGULAR)
        return opened.read(most)


def is_regular(file: str | int) -> bool:
    """Whether a file exists, is no pipe, device, socket or directory, and so has an end."""
    try:
        return stat.S_ISREG(os.stat(file).st_mode)
    except (OSError, ValueError):
        return False


def read(file: str, advice: str, *, regular: bool = False) -> str:
    """Return the text of a file, which must be ``regular`` where a running router reads it.

    Raises ConfigError, with advice for a file that cannot be opened.
    """
    try:
        if regular:
            data = octets(file, MOST_OCTETS + 1)
        else:
            with Path(file).open("rb") as opened:
                data = opened.read(MOST_OCTETS + 1)  # a device such as /dev/zero has no end
        if len(data) > MOST_OCTETS:
            text = f"it is longer than {MOST_OCTETS >> 20} MiB, so it is no configuration; {advice}"
            raise ConfigError([Mistake(file, 0, text)])
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        text = f"byte {data[error.start]:#04x} is not UTF-8 text; save the file as UTF-8"
        raise ConfigError([Mistake(file, line, text)]) from error
    except (OSError, ValueError) as error:
        raise ConfigError([Mistake(file, 0, f"cannot be read ({cause(error)}); {advice}")]) from error
