"""Translates route tables in configuration and environment into the set-up of core and workers."""

import logging
import os
from collections.abc import Mapping

from core.rmr.tables.decoding import fault
from core.rmr.tables.fields import is_endpoint
from routerd.config import Config
from routerd.config.entities.route_tables import HOST_LENGTH, RouteTable, state_file
from routerd.config.entities.transport import EVERYWHERE, Listener
from routerd.config.formats.source import listed
from shm.contract.hosts import machine_name
from shm.contract.numbers import whole
from shm.contract.spelling import strip_spelling
from shm.contract.structs import same
from shm.contract.tables import TableSetup
from shm.contract.text import printable

LOGGER = logging.getLogger("ROUTER")

SEED = "RMR_SEED_RT"
MANAGER = "RMR_RTG_SVC"
STASH = "RMR_STASH_RT"
INTERVAL = "RMR_RTREQ_FREQ"
SOURCE = "RMR_SRC_ID"
DEFAULT_INTERVAL = 5
PORT = 4560  # the default of RMR applications
LONGEST = 4096  # octets of a path

NAME = "rmr"  # the table that the environment alone defines


def tables(config: Config, environment: Mapping[str, str] | None = None) -> list[TableSetup]:
    """Return the set-up of all route tables; the environment completes the first one."""
    environment = _texts(os.environ if environment is None else environment)
    found = config.of(RouteTable)
    if not found and environment.get(SEED):
        found = (RouteTable(name=NAME),)
    return [_table(one, config, environment if at == 0 else {}) for at, one in enumerate(found)]


def _texts(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the RMR variables of the environment; warn of unusable ones and ignore them."""
    found = {}
    for name in (SEED, MANAGER, STASH, INTERVAL, SOURCE):
        text = environment.get(name, "")
        if why := fault(text, LONGEST):
            LOGGER.warning("%s counts as not set: its value %r %s", name, printable(text, 80), why)
        else:
            found[name] = text
    return found


def _table(table: RouteTable, config: Config, environment: Mapping[str, str]) -> TableSetup:
    name = table.name or ""
    seed = table.seed or environment.get(SEED, "")
    stash = table.stash or environment.get(STASH, "") or state_file(f"{name}.stash")
    return same(
        table,
        TableSetup,
        name=name,
        address=strip_spelling(table.address or name),
        seed=seed and os.path.abspath(seed),
        stamp=_stamp(seed),
        manager=table.manager or asked_manager(environment.get(MANAGER, "")),
        compatible=table.mode == "compat",
        pushers=tuple(listed(table.pushers)),
        source=_source(config, name, environment.get(SOURCE, "")),
        push_to=tuple(listed(table.push_to)),
        push_from=tuple(listed(table.push_from)),
        serve_to=tuple(listed(table.serve_to)),
        most_applications=table.max_applications,
        most_of_a_host=table.max_applications_per_host,
        request_interval=table.request_interval or interval(environment.get(INTERVAL, "")),
        applications=table.applications or state_file(f"{name}.applications"),
        stash=os.path.abspath(stash) if stash else "",
    )


def asked_manager(text: str) -> str:
    """Return the manager in RMR_RTG_SVC; empty for a port alone: then the manager connects to the router."""
    return text if is_endpoint(text) and not text.startswith("tcp:") else ""


def interval(text: str) -> int:
    """Return the seconds in RMR_RTREQ_FREQ within the RMR library's bounds, else the default."""
    seconds = whole(text)
    return seconds if seconds is not None and 1 <= seconds <= 300 else DEFAULT_INTERVAL


def source_name(text: str) -> str:
    """Return RMR_SRC_ID without its port, else this machine's name up to its first dot; cut to fit RMR's header."""
    name = text.partition(":")[0] or machine_name().partition(".")[0]
    return name.encode()[:HOST_LENGTH].decode(errors="ignore")


def _source(config: Config, table: str, name: str) -> str:
    """Return host:port of the listener for a table's applications, in the form that they know."""
    for one in config.listeners:
        if one.table == table and not one.replies:
            known = advertised(one)
            port = whole(one.port) or PORT
            return known if one.advertised else f"{source_name(name) if name else known}:{port}"
    return f"{source_name(name)}:{PORT}"


def _stamp(seed: str) -> tuple[int, ...]:
    """Return what changes when a file changes; empty if there is no file."""
    try:
        found = os.stat(seed)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def advertised(listener: Listener) -> str:
    """Return host:port, or the host alone, by which RMR applications reach a listener."""
    if listener.advertised:
        return listener.advertised
    host = "" if listener.host in EVERYWHERE else listener.host
    return f"[{host}]" if ":" in host else source_name(host)
