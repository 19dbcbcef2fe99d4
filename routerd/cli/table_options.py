"""What commands about route tables take: files, and descriptions of a message."""

from collections.abc import Callable, Iterator
from pathlib import Path

import click

from core.rmr.tables.decoding import LOSSLESS
from core.rmr.tables.table import ANY_SUBSCRIPTION

FILE = click.Path(path_type=Path, readable=False, allow_dash=True)
PIECE = 1 << 20  # characters that are read at once
COMPAT = click.option("--compat", is_flag=True, help="Read the file as the RMR library does, and only warn.")


def question(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that describe a message; the parameters are named as the fields of `Question` are."""
    for option in (
        click.option("--from", "sender", default="", metavar="HOST:PORT", help="The endpoint that sends the message."),
        click.option("--meid", default="", metavar="ID", help="The managed entity that the message concerns."),
        click.option(
            "--sid", "subscription", type=int, default=ANY_SUBSCRIPTION, show_default=True, help="The subscription id."
        ),
        click.option("--mt", "message_type", type=int, required=True, help="The message type."),
    ):
        command = option(command)
    return command


def pieces(file: Path) -> Iterator[str]:
    """Yield the text of a file, or of standard input for `-`. Raises click.ClickException."""
    try:
        with click.open_file(str(file), encoding="utf-8", errors=LOSSLESS) as stream:
            while piece := stream.read(PIECE):
                yield piece
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}") from error
