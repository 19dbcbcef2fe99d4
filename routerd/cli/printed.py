"""What commands print: lines and JSON. Those that print tables import `printed_table`, which takes longer to load."""

from collections.abc import Iterable
from typing import Any

import click
import msgspec


def print_steps(steps: Iterable[str], goes_on: bool, as_json: bool) -> None:
    """Print why a route table sends a message where it does; `goes_on` says whether it sends it anywhere."""
    if as_json:
        print_json({"sent": goes_on, "steps": list(steps)})
    else:
        for step in steps:
            click.echo(step)


def print_json(value: Any) -> None:
    """Print a value as indented JSON; what JSON cannot hold becomes text."""
    click.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2))


def printable(text: str) -> str:
    """Return a text of a stranger's without characters that move a terminal's cursor: they become escapes."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
