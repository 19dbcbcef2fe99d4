"""Rules of routeTable entities."""

import os
from collections.abc import Iterator
from ipaddress import ip_network

from core.addresses.tenants import HEADS
from core.rmr.tables.fields import is_endpoint
from routerd.config.entities.route_tables import LONGEST_ADDRESS, SOURCE_LENGTH, RouteTable, state_file
from routerd.config.formats.source import Mistake, is_regular, listed, shown
from routerd.config.rules.check import Checked, each
from shm.contract.spelling import strip_spelling


def check_route_tables(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in routeTable entities."""
    seen: dict[str, Checked] = {}
    files: dict[str, tuple[Checked, str]] = {}
    for at, table in each(checked, RouteTable):
        yield from _table(at, table, seen)
        yield from _files(at, table, files)


def _files(at: Checked, table: RouteTable, seen: dict[str, tuple[Checked, str]]) -> Iterator[Mistake]:
    """Yield files that two tables write, or one for two things."""
    for attribute, given in (("stash", table.stash), ("applications", table.applications)):
        if not (file := given or state_file(f"{table.name}.{attribute}")):
            continue
        file = os.path.abspath(file)
        first, what = seen.setdefault(file, (at, attribute))
        if (first, what) != (at, attribute):
            whose = f"is the {what} of the table {first.where(at)}" if first is not at else f"is its {what}"
            yield at.mistake(attribute, f"{shown(file)} {whose}, too; give another")


def _table(at: Checked, table: RouteTable, seen: dict[str, Checked]) -> Iterator[Mistake]:
    if not table.name:
        yield at.mistake("name", "is missing; give one, listeners and commands refer to it")
        return
    address = table.address or table.name
    first = seen.setdefault(strip_spelling(address), at)
    if first is not at:
        yield at.mistake("address", f"{shown(address)} is the address of the table {first.where(at)}; give another")
    if len(address.encode()) > LONGEST_ADDRESS:
        attribute = "address" if table.address else "name"
        text = f"{shown(address)} has more than {LONGEST_ADDRESS} octets, so RMR connections have no room for theirs"
        yield at.mistake(attribute, f"{text}, which begin so; give a shorter one")
    if address.endswith("/"):
        yield at.mistake("address", f"{shown(address)} ends with /; endpoints' addresses go on there")
    if strip_spelling(address).startswith(HEADS):
        yield at.mistake("address", f"{shown(address)} is an address of routers; give one for clients")
    if table.manager is not None and not is_endpoint(table.manager):
        yield at.mistake("manager", f"{shown(table.manager)} is not host:port; give one such as routemgr:4561")
    yield from _exchange(at, table)
    seed = table.seed
    if seed is not None and not (os.access(seed, os.R_OK) and is_regular(seed)):
        there = "is no regular file" if os.path.exists(seed) and not is_regular(seed) else "cannot be read"
        text = "is a directory" if os.path.isdir(seed) else there
        yield at.mistake("seed", f"{shown(seed)} {text}; give a file with a route table")


def _exchange(at: Checked, table: RouteTable) -> Iterator[Mistake]:
    """Yield mistakes in settings about Route Managers and applications."""
    if table.served_as is not None and not is_source(table.served_as):
        text = f"{shown(table.served_as)} is not host:port with 63 octets at most; give one such as router:4561"
        yield at.mistake("servedAs", text)
    for one in listed(table.push_to):
        if not is_endpoint(one):
            yield at.mistake("pushTo", f"{shown(one)} is not host:port; give control ports such as app:4561")
    for name, networks in (("pushFrom", table.push_from), ("serveTo", table.serve_to)):
        for one in listed(networks):
            try:
                ip_network(one, strict=False)
            except ValueError:
                text = f"{shown(one)} is neither an address nor a network; give one such as 10.0.0.5 or 10.0.0.0/16"
                yield at.mistake(name, text)
    serving = {"servedAs": table.served_as, "pushTo": table.push_to, "serveTo": table.serve_to}
    for name, value in serving.items():
        if value and not table.serve:
            yield at.mistake(name, "has no effect without serve: yes", warning=True)


def is_source(text: str) -> bool:
    """Whether a text is host:port, and fits into RMR's header."""
    return is_endpoint(text) and len(text.encode()) <= SOURCE_LENGTH
