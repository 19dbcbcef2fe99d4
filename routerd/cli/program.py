"""What all programs of routerd do alike: they say in a sentence that their output cannot be written."""

import errno
import os
import sys
from typing import Any, Final

import click

# What write(2) says of a full disk, a quota, a limit of the file's size, and a device or terminal that is gone.
# Commands write to nothing but their output.
UNWRITABLE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


class Program(click.Command):
    """A command that says in a sentence if its output cannot be written; if nobody reads that, it ends quietly."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command and exit, with status 1 if the output cannot be written."""
        try:
            return super().main(*args, **extra)
        except OSError as error:
            if error.filename is not None or error.errno not in UNWRITABLE:
                raise
            click.echo(
                f"Error: the output cannot be written ({error.strerror}); write it where there is room", err=True
            )
            sys.exit(1)
        finally:
            _let_go()


class ProgramGroup(Program, click.Group):
    """A program of several commands."""


def _let_go() -> None:
    """Drop output that cannot be written: the interpreter would try again at its end, and complain."""
    output = sys.__stdout__
    if output is None:  # a closed descriptor
        return
    try:
        output.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
