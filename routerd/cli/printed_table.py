"""Tables that commands print."""

from collections.abc import Container

from rich import box
from rich.table import Table
from rich.text import Text

from shm.contract.text import printable


def table(*columns: str, title: str | None = None, numbers: Container[str] = ()) -> Table:
    """Return a table without rows; columns in `numbers` are aligned to the right."""
    made = Table(title=title and cell(title), box=box.SIMPLE, title_justify="left")
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    return made


def add_row(to: Table, *cells: str, style: str = "") -> None:
    """Add a row."""
    to.add_row(*map(cell, cells), style=style)


def cell(text: str) -> Text:
    """Return a cell, which is shown letter for letter: rich would take the brackets of `[fe80::1]:4560` for markup."""
    return Text(printable(text))
