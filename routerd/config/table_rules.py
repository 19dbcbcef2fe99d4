"""What must hold of routeTable entities."""

import os
from collections.abc import Iterator

from core.routes.fields import is_endpoint
from routerd.config.check import Checked
from routerd.config.route_tables import RouteTable
from routerd.config.source import Mistake, shown


def check_route_tables(checked: list[Checked]) -> Iterator[Mistake]:
    """Every rule about route tables."""
    seen: dict[str, Checked] = {}
    for at in checked:
        if isinstance(at.entity, RouteTable):
            yield from _table(at, at.entity, seen)


def _table(at: Checked, table: RouteTable, seen: dict[str, Checked]) -> Iterator[Mistake]:
    if not table.name:
        yield at.mistake("name", "is missing; give one, listeners and commands refer to it")
        return
    address = table.address or table.name
    first = seen.setdefault(address, at)
    if first is not at:
        yield at.mistake("address", f"{shown(address)} is that of the table {first.where(at)}; give another")
    if address.endswith("/"):
        yield at.mistake("address", f"{shown(address)} ends with /; endpoints' addresses go on there")
    if table.manager is not None and not is_endpoint(table.manager):
        yield at.mistake("manager", f"{shown(table.manager)} is not host:port; give such as routemgr:4561")
    if table.seed is not None and not os.access(table.seed, os.R_OK):
        text = "is a directory" if os.path.isdir(table.seed) else "cannot be read"
        yield at.mistake("seed", f"{shown(table.seed)} {text}; give a file with a route table")
