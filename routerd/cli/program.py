"""What all programs of routerd do alike: they say in a sentence that their output cannot be written.

With --json an error that stops a command is the last object on standard output, too.
"""

import errno
import json
import os
import sys
from io import TextIOWrapper
from typing import Any, Final

import click

# What write(2) says of a full disk, a quota, a limit of the file's size, a device or terminal that is gone, and of no
# output at all. Commands write to nothing but their output.
UNWRITABLE: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}

STATUSES = (
    "Exit status: 0 for success, 1 for an error, which standard error explains, 2 for a bad command line. "
    "`routerd run` and `routerd pipeline` also have 78, for what another start does not mend, and `routerd pipeline "
    "check` a status for each fault."
)


class Program(click.Command):
    """A command that says in a sentence if its output cannot be written; if nobody reads that, it ends quietly."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command and exit, with status 1 if the output cannot be written, and 0 if its reader is gone."""
        _take_place_of_closed()
        _escape_what_no_terminal_has()
        before = _output()
        try:
            return super().main(*args, **extra)
        except SystemExit:
            if before != _output():  # click and rich put another in the place of a pipe that is broken
                sys.exit(0)  # as if all had been printed before the reader went, which cannot be known
            raise
        except OSError as error:
            if error.filename is not None or error.errno not in UNWRITABLE:
                raise
            where = "; write it where there is room"
            if error.errno == errno.EBADF:
                where = ": standard output is closed; open it, or name a file"
            click.echo(f"Error: the output cannot be written ({error.strerror}){where}", err=True)
            sys.exit(1)
        finally:
            _let_go()


class Command(click.Command):
    """A command that tells its error to whoever reads its JSON."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command. An error that is no mistake of the command line becomes an object, besides its sentence."""
        try:
            return super().invoke(context)
        except click.UsageError:
            raise
        except click.ClickException as error:
            as_json = context.params.get("as_json") or context.params.get("json")
            if as_json and not getattr(error, "printed", False):
                click.echo(json.dumps({"error": error.message}))
            raise


class CommandGroup(click.Group):
    """Several commands below one word."""

    command_class = Command


class ProgramGroup(Program, CommandGroup):
    """A program of several commands."""


STDOUT: Final = 1


def _take_place_of_closed() -> None:
    """Open what takes no octets in the place of a standard output that is closed.

    Python would drop what a command prints, and a file that the command opens would become its output.
    """
    if sys.stdout is not None:
        return
    while (opened := os.open(os.devnull, os.O_RDONLY)) < STDOUT:
        os.set_inheritable(opened, True)  # it stays open in the place of a closed standard input
    if opened != STDOUT:
        os.dup2(opened, STDOUT)
        os.close(opened)
    os.set_inheritable(STDOUT, True)  # or else a file of a child would have that number
    sys.stdout = os.fdopen(STDOUT, "w", encoding="utf-8", closefd=False)


def _escape_what_no_terminal_has() -> None:
    """Print escapes for characters that the encoding of standard output lacks, as Python does on standard error."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _output() -> tuple[int, int, int]:
    """Return which object standard output is, and which file."""
    try:
        status = os.fstat(STDOUT)
    except OSError:
        return id(sys.stdout), 0, 0
    return id(sys.stdout), status.st_dev, status.st_ino


def _let_go() -> None:
    """Drop output that cannot be written: the interpreter would try again at its end, and complain."""
    output = sys.__stdout__ or sys.stdout  # a test may have replaced the latter
    try:
        output.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
