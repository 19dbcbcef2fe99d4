"""Manual pages from the command line's own help: one for each command, in section 1."""

import inspect
import re
from collections.abc import Iterator

import click


def pages(
    command: click.Command, name: str, version: str, above: click.Context | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the names and texts (roff) of the page of a command and those of all commands below it."""
    context = click.Context(command, above, info_name=name, **command.context_settings)
    yield f"{name.replace(' ', '-')}.1", page(command, context, version)
    if isinstance(command, click.Group):
        for one in command.list_commands(context):
            below = command.get_command(context, one)
            if below is not None and not below.hidden:
                yield from pages(below, f"{name} {one}", version, context)


def page(command: click.Command, context: click.Context, version: str) -> str:
    """Return one page."""
    name = context.info_name or ""
    title = name.replace(" ", "-")
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [
        f'.TH "{title.upper()}" 1 "" "routerd {version}" "User Commands"',
        f".SH NAME\n{escaped(title)} \\- {escaped(command.get_short_help_str(300).rstrip('.'))}",
        f".SH SYNOPSIS\n\\fB{escaped(name)}\\fR {escaped(usage)}",
        f".SH DESCRIPTION\n{text(command.help or '')}",
    ]
    records = [record for one in command.get_params(context) if (record := one.get_help_record(context)) and record[1]]
    if records:
        parts.append(".SH OPTIONS\n" + "\n".join(map(entry, records)))
    if isinstance(command, click.Group):
        below = [(one, command.get_command(context, one)) for one in command.list_commands(context)]
        shown = [(f"{title}-{one}(1)", made.get_short_help_str(300)) for one, made in below if made]
        parts.append(".SH COMMANDS\n" + "\n".join(map(entry, shown)))
    if command.epilog:
        examples = command.epilog.removeprefix("\b\nExamples:\n")
        heading = "EXIT STATUS" if examples == command.epilog else "EXAMPLES"
        shown_text = text(examples) if heading == "EXIT STATUS" else f".nf\n{escaped(examples)}\n.fi"
        parts.append(f".SH {heading}\n{shown_text}")
    if name != "routerd":
        parts.append(".SH SEE ALSO\n\\fBrouterd\\fR(1), /usr/share/doc/routerd/docs")
    return "\n".join(parts) + "\n"


def entry(record: tuple[str, str]) -> str:
    """Return an item of a list of options or commands."""
    return f".TP\n\\fB{escaped(record[0])}\\fR\n{escaped(record[1])}"


def text(help_text: str) -> str:
    r"""Return paragraphs; one that begins with click's mark \b keeps its lines."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(help_text.partition("\f")[0]))
    return "\n.PP\n".join(
        f".nf\n{escaped(one.removeprefix(chr(8)).strip())}\n.fi" if one.startswith("\b") else escaped(one)
        for one in paragraphs
    )


def escaped(plain: str) -> str:
    """Return a text in which roff finds no requests of its own."""
    safe = plain.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in safe.splitlines())
