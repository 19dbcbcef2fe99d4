"""Rules of listeners that speak RMR."""

import os
from collections.abc import Iterator

from core.rmr.tables.fields import is_endpoint
from routerd.config.entities.route_tables import RouteTable
from routerd.config.entities.transport import Listener
from routerd.config.formats.source import Mistake, shown
from routerd.config.rules.check import Checked

SEED = "RMR_SEED_RT"  # this environment variable defines a table if none is configured
SEEDED = "rmr"
_OF_AMQP = (
    "http", "ssl_profile", "require_ssl", "require_encryption", "authenticate_peer", "sasl_plugin",
    "multi_tenant",
)  # fmt: skip


def check_rmr_listeners(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in listeners with ``protocol: rmr``, and in attributes that only those may have."""
    tables = {one.entity.name for one in checked if isinstance(one.entity, RouteTable)}
    if not tables and os.environ.get(SEED):
        tables = {SEEDED}
    for at in checked:
        if isinstance(at.entity, Listener):
            rules = _rmr(at, at.entity, tables) if at.entity.protocol == "rmr" else _amqp(at, at.entity)
            yield from rules


def _rmr(at: Checked, listener: Listener, tables: set[str | None]) -> Iterator[Mistake]:
    if not listener.table:
        yield at.mistake("table", "is missing; name the routeTable that messages of RMR applications go by")
    elif listener.table not in tables:
        yield at.mistake("table", f"there is no routeTable {shown(listener.table)}; configure one")
    if listener.role != "normal":
        yield at.mistake("role", f"{listener.role} is for AMQP; leave it out, or protocol: rmr")
    for name in _OF_AMQP:
        if getattr(listener, name):
            camel = "".join(part.title() if i else part for i, part in enumerate(name.split("_")))
            yield at.mistake(camel, "is for AMQP, RMR has nothing of the kind; leave it out, or protocol: rmr")
    if listener.advertised and not is_endpoint(listener.advertised):
        yield at.mistake("advertised", f"{shown(listener.advertised)} is not host:port; give such as router:4560")


def _amqp(at: Checked, listener: Listener) -> Iterator[Mistake]:
    for name in ("table", "advertised", "replies"):
        if getattr(listener, name):
            yield at.mistake(name, "is for protocol: rmr; give that, or leave it out")
