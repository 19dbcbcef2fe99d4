"""Assigns each connector to a worker, and translates it into the set-up of that worker.

A connector belongs to one worker for as long as it is configured. When that worker dies, its successor
connects again, or another worker if the successor dies before it serves. The death of the core changes
nothing for a connector.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from routerd.config.entities.transport import (
    MAX_SESSIONS,
    MIN_FRAME_SIZE,
    Connector,
    Listener,
    SslProfile,
    failover_places,
    port_number,
)
from routerd.machine.listeners import numbers
from routerd.translate.security import client_tls_setup
from routerd.translate.source_routes import ockam_setup
from shm.contract.control import ConnectorSetup
from shm.contract.structs import same
from workers.control.message_log import components


class Connecting(msgspec.Struct, frozen=True):
    """A connector and the worker that it belongs to; `number` is never used again."""

    connector: Connector
    number: int
    worker: int


def assign(connecting: Sequence[Connecting], wanted: Sequence[Connector], workers: int) -> list[Connecting]:
    """Return the connectors that are wanted now, each with its worker.

    A connector that was there keeps its number, and its worker unless that is removed. Any other goes to the
    worker that has fewest.
    """
    places = _places([one.connector for one in connecting])
    have = {place: one for place, one in zip(places, connecting, strict=True) if one.worker < workers}
    kept = [have.get(place) for place in _places(wanted)]
    load = [sum(one is not None and one.worker == worker for one in kept) for worker in range(workers)]
    found: list[Connecting] = []
    for connector, before in zip(wanted, kept, strict=True):
        if before is not None:
            found.append(msgspec.structs.replace(before, connector=connector))
            continue
        worker = load.index(min(load))
        load[worker] += 1
        found.append(Connecting(connector, next(numbers), worker))
    return found


def taken_over(
    connecting: Sequence[Connecting], absent: Collection[int], able: Iterable[int]
) -> list[Connecting] | None:
    """Give the connectors of absent workers to those able to take them; None: nothing changes."""
    load = {index: sum(one.worker == index for one in connecting) for index in able}
    if not load or not any(one.worker in absent for one in connecting):
        return None
    found: list[Connecting] = []
    for one in connecting:
        worker = one.worker
        if worker in absent:
            worker = min(load, key=load.__getitem__)
            load[worker] += 1
        found.append(msgspec.structs.replace(one, worker=worker))
    return found


def _places(connectors: Sequence[Connector]) -> list[tuple[str, int]]:
    """Return what tells connectors apart: their names, and the position of each among those of its name."""
    names = [name_of(connector) for connector in connectors]
    return [(name, names[:i].count(name)) for i, name in enumerate(names)]


def name_of(connector: Connector) -> str:
    """Return a connector's name in management."""
    return connector.name or f"connector/{connector.host}:{connector.port}"


def connector_setup(one: Connecting, link_capacity: int | None, profiles: Sequence[SslProfile]) -> ConnectorSetup:
    """Return the set-up of a connector for its worker."""
    connector = one.connector
    return same(
        connector,
        ConnectorSetup,
        name=name_of(connector),
        number=one.number,
        hosts=_hosts(connector),
        family=connector.protocol_family or "",
        sasl_password=connector.sasl_password or "",
        tls=client_tls_setup(connector, profiles),
        **common_terms(connector, link_capacity),
    )


def common_terms(one: Listener | Connector, link_capacity: int | None) -> dict[str, Any]:
    """Return what the set-ups of listeners and connectors derive alike from their entities."""
    return {
        "max_frame_size": max(one.max_frame_size, MIN_FRAME_SIZE),
        "max_sessions": min(one.max_sessions or MAX_SESSIONS, MAX_SESSIONS),
        "link_capacity": one.link_capacity or link_capacity or 0,
        "sasl_mechanisms": one.mechanisms,
        "logged_parts": components(one.message_logging_components),
        "ockam": ockam_setup(one),
    }


def _hosts(connector: Connector) -> list[str]:
    """Return the hosts to connect to as [scheme://]host:port, the configured one first."""
    hosts = [f"{_bracketed(connector.host)}:{port_number(connector.port)}"]
    for place in failover_places(connector.failover_urls or ""):
        scheme = f"{place['scheme']}://" if "scheme" in place else ""
        hosts.append(f"{scheme}{_bracketed(place['network-host'])}:{port_number(place['port'])}")
    return list(dict.fromkeys(hosts))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
