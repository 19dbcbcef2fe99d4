"""What commands print: lines and JSON. Those that print tables import `printed_table`, which takes longer to load.

Names, errors and messages are those of strangers, who may know what a terminal does at which octets. Lines and cells
have them through `shm.contract.text.printable`, JSON has escapes of its own.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import click
import msgspec

from shm.contract.text import printable

_NOT_ASCII: Final = re.compile(r"[^\n -~]")


def print_steps(steps: Iterable[str], goes_on: bool, as_json: bool) -> None:
    """Print why a route table sends a message where it does; `goes_on` says whether it sends it anywhere."""
    if as_json:
        print_json({"sent": goes_on, "steps": list(steps)})
    else:
        for step in steps:
            click.echo(printable(step))


def print_json(value: Any, *, in_a_line: bool = False, hook: Callable[[Any], str] = str) -> None:
    """Print a value as JSON, indented or in a line; ``hook`` makes text of what JSON cannot hold."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=hook)
    except UnicodeEncodeError:  # half a character, as AMQP's type char may have it
        encoded = json.dumps(msgspec.to_builtins(value, enc_hook=hook, str_keys=True)).encode()
    text = (encoded if in_a_line else msgspec.json.format(encoded, indent=2)).decode()
    click.echo(_NOT_ASCII.sub(_shown, text))


def _shown(found: re.Match[str]) -> str:
    """Return a character of a JSON text, or its escape if it is not printable: only strings have such characters."""
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]
