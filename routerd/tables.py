"""Route tables: from configuration and environment to what core and workers are told."""

import os
import socket
from collections.abc import Mapping

from core.routes.fields import is_endpoint
from routerd.config import Config
from routerd.config.route_tables import RouteTable
from routerd.config.transport import Listener
from shm.tables import TableSetup

SEED = "RMR_SEED_RT"
MANAGER = "RMR_RTG_SVC"
NAME = "rmr"  # of the table that the environment alone makes


def tables(config: Config, environment: Mapping[str, str] | None = None) -> list[TableSetup]:
    """All route tables; what the first one does not say, the environment may."""
    environment = os.environ if environment is None else environment
    found = [one for one in config.entities if isinstance(one, RouteTable)]
    if not found and environment.get(SEED):
        found = [RouteTable(name=NAME)]
    return [_table(one, environment if at == 0 else {}) for at, one in enumerate(found)]


def _table(table: RouteTable, environment: Mapping[str, str]) -> TableSetup:
    name = table.name or ""
    seed, asked = table.seed or environment.get(SEED, ""), environment.get(MANAGER, "")
    return TableSetup(
        name=name,
        address=table.address or name,
        seed=seed and os.path.abspath(seed),
        stamp=_stamp(seed),
        manager=table.manager or (asked if is_endpoint(asked) else ""),
        serve=table.serve,
        compatible=table.mode == "compat",
        skip_dead=table.skip_dead,
        connect=table.connect,
        reply=table.reply,
        max_frame_size=table.max_frame_size,
        pushers=tuple(filter(None, map(str.strip, table.pushers.split(",")))),
    )


def _stamp(seed: str) -> tuple[int, ...]:
    """What tells a changed file from the former one; empty: there is none."""
    try:
        found = os.stat(seed)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def advertised(listener: Listener) -> str:
    """What RMR applications reach a listener by: host:port, or the host alone. The library does likewise."""
    if listener.advertised:
        return listener.advertised
    host = listener.host if listener.host not in ("", "0.0.0.0", "::") else ""  # noqa: S104 - compared, not listened on
    host = host or socket.gethostname().partition(".")[0]
    return f"[{host}]" if ":" in host else host
