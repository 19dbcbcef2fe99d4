"""Rules between attributes and between entities: names, references, addresses, CPUs."""

import ipaddress
import os
import re
from collections.abc import Iterator

import msgspec

from core.addresses.agent_address import is_own
from routerd.config.entities.attribute import Entity
from routerd.config.entities.router import Log, Router
from routerd.config.entities.routing import Address, AutoLink, Binding, Exchange, LinkRoute
from routerd.config.entities.transport import AuthServicePlugin, Connector, Listener, SslProfile, port_number
from routerd.config.formats.closest import closest
from routerd.config.formats.source import Mistake, shown, words
from routerd.config.rules.check import Checked, each
from routerd.config.rules.exchanges import check_exchanges
from routerd.config.rules.values import usable_cpus
from routerd.log.output import READ_ONLY_ADVICE
from routerd.machine.pinning import ranges
from workers.control.message_log import COMPONENTS, components

MAX_ID_BYTES = 127
_PLACE = {"host", "port", "socketAddressFamily"}
_ALL_INTERFACES = {"0.0.0.0", "::"}  # noqa: S104 - compared with, not bound to
_ID_CHARACTERS = re.compile(r"[A-Za-z0-9._+:@~=,-]+", re.ASCII)


def check_relations(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes in the relations of all entities of a configuration."""
    yield from _unique(checked)
    for at, router in each(checked, Router):
        yield from _router(at, router)
    yield from _listeners(checked)
    yield from _references(checked)
    yield from _addresses(checked)
    yield from check_exchanges(checked)
    for at, log in each(checked, Log):
        yield from _output_file(at, log)


def _unique(checked: list[Checked]) -> Iterator[Mistake]:
    seen: dict[tuple[str, str, str], Checked] = {}
    for at in checked:
        keys = [("name", at.entity.name)] if at.entity.name else []
        if at.type.singleton:
            keys.append(("", ""))
        if isinstance(at.entity, Log):
            keys.append(("module", at.entity.module))
        for attribute, value in keys:
            first = seen.setdefault((at.type.name, attribute, value), at)
            if first is not at and not attribute:
                yield at.mistake("", f"is already defined {first.where(at)}; there can be only one, merge them")
            elif first is not at and attribute == "name" and at.type.name.startswith("router.config."):
                text = f"{shown(value)} is already used {first.where(at)}. Name conflicts with an existing entity"
                yield at.mistake(attribute, f"{text}; give another")
            elif first is not at:
                yield at.mistake(attribute, f"{shown(value)} is already used {first.where(at)}; give another")


def _router(at: Checked, router: Router) -> Iterator[Mistake]:
    if "id" in at.lines:
        if not _ID_CHARACTERS.fullmatch(router.id):
            wrong = sorted(set(re.sub(_ID_CHARACTERS, "", router.id))) or [""]
            text = f"{shown(router.id)} contains {shown(wrong[0])}" if router.id else "is empty"
            yield at.mistake("id", f"{text}; give letters, digits and . _ - + : @ ~ = , only")
        if len(router.id.encode("utf-8", "replace")) > MAX_ID_BYTES:
            yield at.mistake("id", f"exceeds the maximum allowed length; give at most {MAX_ID_BYTES} bytes")
    for directory in words(router.management_dirs):
        if not os.path.isabs(directory):
            yield at.mistake("managementDirs", f"{shown(directory)} is not an absolute path; give one")
    for name in () if router.flight_records else ("flightAddresses", "flightDirectory"):
        if at.value(name):
            yield at.mistake(name, "has no effect without flightRecords; give some, or remove this", warning=True)
    usable = usable_cpus()
    if router.core_cpu is not None and router.core_cpu not in usable:
        yield at.mistake("coreCpu", _no_cpu([router.core_cpu], usable))
    if unknown := [cpu for cpu in router.worker_cpus if cpu not in usable]:
        yield at.mistake("workerCpus", _no_cpu(unknown, usable))
        return
    if router.core_cpu in router.worker_cpus:
        text = f"CPU {router.core_cpu} is also the core's (coreCpu), and the two take turns"
        yield at.mistake("workerCpus", f"{text}; give each a CPU of its own", warning=True)
    if len(router.worker_cpus) in range(1, router.workers):
        text = f"{router.workers} workers take turns on {ranges(router.worker_cpus)}"
        yield at.mistake("workerCpus", f"{text}; give a CPU for each, or fewer workers", warning=True)


def _no_cpu(unknown: list[int], usable: tuple[int, ...]) -> str:
    listed = ", ".join(map(str, unknown[:8])) + (", …" if len(unknown) > 8 else "")
    return f"CPU {listed} cannot be used here; give some of {ranges(usable)}"


def _listeners(checked: list[Checked]) -> Iterator[Mistake]:
    earlier: list[tuple[Checked, Listener]] = []
    for at, listener in each(checked, Listener):
        yield from _host(at, listener.host, listener.socket_address_family, "socketAddressFamily")
        yield from _logged(at, listener.message_logging_components)
        if at.wrong & _PLACE:
            continue
        for first, other in earlier:
            if _same_place(listener, other):
                place = f"host {shown(listener.host)} port {listener.port}"
                text = f"{place} is the address of the listener {first.where(at)}; give another port"
                yield at.mistake("port", text)
                break
        earlier.append((at, listener))
    for at, connector in each(checked, Connector):
        yield from _host(at, connector.host, connector.protocol_family, "protocolFamily")
        yield from _logged(at, connector.message_logging_components)


def _logged(at: Checked, names: str) -> Iterator[Mistake]:
    try:
        components(names)
    except ValueError as error:
        known = f"all, none, or some of {', '.join(COMPONENTS)} with commas between"
        yield at.mistake("messageLoggingComponents", f"{error}; give {known}")


def _same_place(one: Listener, other: Listener) -> bool:
    port = port_number(one.port)
    if port == 0 or port != port_number(other.port):
        return False
    families = {one.socket_address_family, other.socket_address_family}
    if families == {"IPv4", "IPv6"}:
        return False
    hosts = {one.host.lower(), other.host.lower()}
    return len(hosts) == 1 or ("" in hosts and bool(hosts & _ALL_INTERFACES))


def _host(at: Checked, host: str, family: str | None, attribute: str) -> Iterator[Mistake]:
    if re.search(r"[\s/\[\]]", host):
        yield at.mistake("host", f"{shown(host)} is not a host; give a name or an address without brackets or blanks")
    if family is None:
        return
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return  # a name may have addresses of either family
    if family != f"IPv{version}":
        yield at.mistake(attribute, f"host {shown(host)} is not an {family} address; give IPv{version} or another host")


def _references(checked: list[Checked]) -> Iterator[Mistake]:
    profiles = {entity.name for _, entity in each(checked, SslProfile)}
    plugins = {entity.name for _, entity in each(checked, AuthServicePlugin)}
    exchanges = {entity.name for _, entity in each(checked, Exchange)}
    peers = {at.entity.name for at in checked if isinstance(at.entity, Listener | Connector)}
    for at in checked:
        match at.entity:
            case Listener(ssl_profile=profile, sasl_plugin=plugin):
                yield from _refers(at, "sslProfile", profile, "sslProfile", profiles)
                yield from _refers(at, "saslPlugin", plugin, "authServicePlugin", plugins)
            case Connector(ssl_profile=profile) | AuthServicePlugin(ssl_profile=profile):
                yield from _refers(at, "sslProfile", profile, "sslProfile", profiles)
            case Binding(exchange_name=exchange):
                yield from _refers(at, "exchangeName", exchange, "exchange", exchanges)
            case LinkRoute(connection=peer) | AutoLink(connection=peer):
                # Management may add the connector later; until then the link waits.
                yield from _refers(at, "connection", peer, "connector or listener", peers, warning=True)


def _refers(
    at: Checked, attribute: str, name: str | None, entity: str, known: set[str | None], *, warning: bool = False
) -> Iterator[Mistake]:
    if name is None or name in known:
        return
    names = sorted(filter(None, known))
    guess = closest(name, names)
    if guess:
        instead = f"did you mean {shown(guess)}?"
    else:
        instead = f"give one of {', '.join(names)}" if names else f"add a section {entity} with that name"
    yield at.mistake(attribute, f"there is no {entity} named {shown(name)}; {instead}", warning=warning)


def _addresses(checked: list[Checked]) -> Iterator[Mistake]:
    seen: dict[tuple[str, str, str], Checked] = {}
    for at in checked:
        match at.entity:
            case Address() as address:
                yield from _one_of(at, "prefix", address.prefix, "pattern", address.pattern, needed=True)
                yield from _phases(at, address)
                yield from _repeated(at, address, "", seen)
            case LinkRoute() as route:
                yield from _one_of(at, "prefix", route.prefix, "pattern", route.pattern, needed=True)
                yield from _one_of(at, "containerId", route.container_id, "connection", route.connection)
                yield from _own(at, route)
                yield from _repeated(at, route, route.direction, seen)
            case AutoLink(container_id=container, connection=connection):
                yield from _one_of(at, "containerId", container, "connection", connection)


def _own(at: Checked, route: LinkRoute) -> Iterator[Mistake]:
    """Yield mistakes in link routes of the router's own addresses, which would never get a link."""
    attribute, given = ("prefix", route.prefix) if route.prefix else ("pattern", route.pattern)
    if given and is_own(given):
        text = "is of the router's own addresses, which no link route takes; give another"
        yield at.mistake(attribute, f"{shown(given)} {text}")


def _phases(at: Checked, address: Address) -> Iterator[Mistake]:
    if address.enable_fallback and (address.waypoint or address.ingress_phase or address.egress_phase):
        text = "does not go together with waypoint, or with phases other than 0; give one of the two"
        yield at.mistake("enableFallback", text)


def _one_of(
    at: Checked, one: str, first: str | None, other: str, second: str | None, *, needed: bool = False
) -> Iterator[Mistake]:
    if first is not None and second is not None:
        yield at.mistake(other, f"Both {other} and {one} cannot be specified; give one of the two")
    elif needed and not first and not second and not at.wrong & {one, other}:
        yield at.mistake("", f"has neither {one} nor {other}; give one of the two")


def _repeated(
    at: Checked, named: Address | LinkRoute, direction: str, seen: dict[tuple[str, str, str], Checked]
) -> Iterator[Mistake]:
    """Compare prefixes and patterns as patterns: a prefix is the pattern of everything below it."""
    attribute, given = ("prefix", named.prefix) if named.prefix else ("pattern", named.pattern)
    if not given:
        return
    tokens = given.strip("./").replace("/", ".")
    if not tokens:
        yield at.mistake(attribute, f"{shown(given)} has no token; give an address, or a part of one")
        return
    pattern = f"{tokens}.#" if attribute == "prefix" else tokens
    first = seen.setdefault((at.type.name, direction, pattern), at)
    if first is at:
        return
    text = f"{shown(given)} is the same as {first.where(at)}; remove one of them"
    harmless = at.line > 0 and _without_place(first.entity) == _without_place(at.entity)
    if isinstance(named, LinkRoute) and isinstance(first.entity, LinkRoute):
        harmless = _changes(named) == _changes(first.entity)  # it may be for another broker
        if harmless and _brokers(named) != _brokers(first.entity):
            return
    yield at.mistake(attribute, text, warning=harmless)


def _changes(route: LinkRoute) -> tuple[str | None, str | None]:
    return route.add_external_prefix, route.del_external_prefix


def _brokers(route: LinkRoute) -> tuple[str | None, str | None]:
    return route.container_id, route.connection


def _without_place(entity: Entity) -> Entity:
    return msgspec.structs.replace(entity, line=0)


def _output_file(at: Checked, log: Log) -> Iterator[Mistake]:
    if log.output_file and (why := unusable_log(log.output_file)):
        # The disk may be mounted later: the router serves and tries again.
        yield at.mistake("outputFile", why, warning=not os.path.isdir(log.output_file))


def unusable_log(name: str) -> str:
    """Return why a log cannot be written to a file; empty if it can."""
    directory = os.path.dirname(name) or "."
    if name in ("stderr", "stdout", "syslog"):
        return ""
    if not name:
        return "give the name of a file, or stderr, stdout or syslog"
    if os.path.isdir(name):
        return f"{shown(name)} is a directory; give a file in it"
    if not os.path.isdir(directory):
        return f"there is no directory {shown(directory)}; make it or give another file"
    if not os.access(name if os.path.exists(name) else directory, os.W_OK):
        read_only = os.statvfs(directory).f_flag & os.ST_RDONLY
        advice = READ_ONLY_ADVICE if read_only else "change its permissions or give another file"
        return f"{shown(name)} cannot be written; {advice}"
    return ""
