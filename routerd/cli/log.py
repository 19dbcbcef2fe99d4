"""`routerd log`: the last log lines of a running router's processes as text, and new ones as they come."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any

import click
import msgspec

from routerd.cli.client import NODE, Client, ClientError, Place, RefusedError
from routerd.cli.printed import print_json
from shm.contract.text import printable
from shm.memory.journal import LEVELS

LOOK_SECONDS = 0.5  # between two looks for new lines
MOST = 1000  # lines that a router gives at once

Line = list[Any]  # module, level, text, file, line number, seconds since 1970


class Options(msgspec.Struct, frozen=True):
    """Says which lines to show."""

    follow: bool = False
    limit: int = 50
    module: str | None = None
    level: str = "trace"
    as_json: bool = False


def run(place: Place, options: Options) -> None:
    """Print lines, with `follow` until interrupted. Raises ClientError."""
    with suppress(KeyboardInterrupt):
        if options.module is not None:
            with Client(place) as client:
                check_module(client, options.module)
        if options.follow:
            follow(place, options)
        else:
            with Client(place) as client:
                wanted = [line for line in _last(client) if _shown(line, options)]
            for line in wanted[-options.limit :]:
                _print(line, options)


def _last(client: Client) -> list[Line]:
    found: list[Line] = client.call("GET-LOG", **NODE, limit=MOST)
    return found


def check_module(client: Client, module: str) -> None:
    """Raise ClientError, with the names of all modules, if the router has none of this name."""
    known = {str(row["module"]) for row in client.query("log", ["module"])}
    if module not in known:
        raise ClientError(f"the router's log has no module {module!r}; give one of: {', '.join(sorted(known))}")


def follow(place: Place, options: Options) -> None:
    """Print lines as they come; a lost connection is opened again. Raises ClientError if the first one fails."""
    before: list[Line] | None = None
    for lines in looks(place, lambda text: click.echo(text, err=True)):
        fresh = lines if before is None else later(before, lines)
        wanted = [line for line in fresh if _shown(line, options)]
        for line in wanted if before is not None else wanted[-options.limit :]:
            _print(line, options)
        before = lines


def looks(place: Place, tell: Callable[[str], None]) -> Iterator[list[Line]]:
    """Yield the router's last lines again and again; `tell` gets what is wrong, once for each reason in a row."""
    client: Client | None = Client(place)
    trouble = ""
    while True:
        try:
            client = client or Client(place)
            yield _last(client)
            trouble = ""
        except RefusedError:
            raise
        except ClientError as error:
            if client is not None:
                client.close()
            client = None
            if str(error) != trouble:
                trouble = str(error)
                tell(f"{trouble}\nConnecting again")
        time.sleep(LOOK_SECONDS)


def later(before: list[Line], lines: list[Line]) -> list[Line]:
    """Return the lines that an earlier look had not.

    A look is the last lines of all processes in the order of their times, so a new one may stand between others.
    """
    known = Counter(map(tuple, before))
    fresh = []
    for line in lines:
        if known[tuple(line)]:
            known[tuple(line)] -= 1
        else:
            fresh.append(line)
    return fresh


def _shown(line: Line, options: Options) -> bool:
    module, level = line[:2]
    return options.module in (None, module) and LEVELS.get(level, LEVELS["critical"]) >= LEVELS[options.level]


def _print(line: Line, options: Options) -> None:
    if options.as_json:
        print_json(as_object(line), in_a_line=True)
    else:
        click.echo(as_text(line))


def as_object(line: Line) -> dict[str, Any]:
    """Return the parts of a line by name, as `format: json` of a log names them; the text has its fields."""
    module, level, text, file, number, seconds = line
    time_of_day = datetime.fromtimestamp(seconds).astimezone().isoformat()
    return {"time": time_of_day, "level": level, "module": module, "text": text, "source": f"{file}:{number}"}


def as_text(line: Line) -> str:
    """Return a line as a log file would have it, with the local time in seconds."""
    module, level, text, _, _, seconds = line
    return printable(f"{datetime.fromtimestamp(seconds).astimezone():%Y-%m-%d %H:%M:%S %z} {module} ({level}) {text}")
