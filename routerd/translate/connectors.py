"""Connectors: which worker makes the connection of each, and what it is told.

A connector belongs to one worker for as long as it stands in the configuration. When that worker dies, the
next generation in its place connects again, or another worker if that one does not get so far; when the core
dies, nothing changes for it.
"""

from collections.abc import Sequence

import msgspec

from routerd.config.entities.transport import Connector, SslProfile, port_number
from routerd.config.rules.ockam import ockam_setup
from routerd.config.rules.peers import failover_places
from routerd.machine.confidential import told
from routerd.machine.listeners import numbers
from routerd.supervise.child import Place
from routerd.translate.same import same
from routerd.translate.security import client_tls_setup
from shm.contract.control import ConnectorSetup
from workers.control.message_log import components

MIN_FRAME_SIZE = 512  # AMQP 2.3.2: every peer takes such frames
MAX_SESSIONS = 32768


class Connecting(msgspec.Struct, frozen=True):
    """A connector and the worker that it belongs to; `number` is never used again."""

    connector: Connector
    number: int
    worker: int


def assign(connecting: Sequence[Connecting], wanted: Sequence[Connector], workers: int) -> list[Connecting]:
    """Those wanted now. One that was there keeps number and worker, another goes where fewest are; so does
    one whose worker is none of them any more."""
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


def taken_over(connecting: Sequence[Connecting], workers: Sequence[Place]) -> list[Connecting] | None:
    """What it is when workers that died before they served leave theirs to others; None: as it was."""
    absent = {one.index for one in workers if not one.serving and one.lives and one.lives[-1].ready is None}
    load = {one.index: 0 for one in workers if one.serving and one.leaving is None}
    if not load or not any(one.worker in absent for one in connecting):
        return None
    for one in connecting:
        if one.worker in load:
            load[one.worker] += 1
    found: list[Connecting] = []
    for one in connecting:
        worker = one.worker
        if worker in absent:
            worker = min(load, key=lambda index: load[index])
            load[worker] += 1
        found.append(msgspec.structs.replace(one, worker=worker))
    return found


def _places(connectors: Sequence[Connector]) -> list[tuple[str, int]]:
    """What tells connectors apart: their names, and which of its name each is."""
    names = [name_of(connector) for connector in connectors]
    return [(name, names[:i].count(name)) for i, name in enumerate(names)]


def name_of(connector: Connector) -> str:
    """The name of a connector, as management has it."""
    return connector.name or f"connector/{connector.host}:{connector.port}"


def connector_setup(one: Connecting, link_capacity: int, profiles: Sequence[SslProfile]) -> ConnectorSetup:
    """A connector as its worker is told."""
    connector = one.connector
    return same(
        connector,
        ConnectorSetup,
        name=name_of(connector),
        number=one.number,
        hosts=_hosts(connector),
        family=connector.protocol_family or "",
        max_frame_size=max(connector.max_frame_size, MIN_FRAME_SIZE),
        max_sessions=min(connector.max_sessions or MAX_SESSIONS, MAX_SESSIONS),
        max_session_frames=connector.max_session_frames or 0,
        link_capacity=connector.link_capacity or link_capacity,
        sasl_mechanisms=" ".join((connector.sasl_mechanisms or "").replace(",", " ").split()),
        sasl_password=told(connector.sasl_password or ""),
        tls=client_tls_setup(connector, profiles),
        logged_parts=components(connector.message_logging_components),
        ockam=ockam_setup(connector),
    )


def _hosts(connector: Connector) -> list[str]:
    """Where it connects to, the configured place first, each as [scheme://]host:port."""
    hosts = [f"{_bracketed(connector.host)}:{port_number(connector.port)}"]
    for place in failover_places(connector.failover_urls or ""):
        scheme = f"{place['scheme']}://" if "scheme" in place else ""
        hosts.append(f"{scheme}{_bracketed(place['network-host'])}:{port_number(place['port'])}")
    return list(dict.fromkeys(hosts))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
