"""Listening sockets: the supervisor opens them, and each worker inherits all, so each is always served.

A socket that the service manager holds for this process is used instead of a new one. It outlives the router,
and clients that connect during a restart wait in its queue.
"""

import errno
import itertools
import os
import socket
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from routerd.config.entities.transport import Listener
from routerd.machine.lookups import silence, wait_for
from routerd.machine.systemd import Passed, covers
from shm.contract.text import cause
from workers.control.lookup import Lookup, is_address

_FAMILIES = {None: socket.AF_UNSPEC, "IPv4": socket.AF_INET, "IPv6": socket.AF_INET6}
_NOT_ON_THIS_MACHINE = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
_Address = tuple[str | int, ...] | tuple[int, bytes]  # as getaddrinfo has it
Lookups = list[Lookup | None]  # of listeners; None for one whose addresses are known at once


class ListenError(Exception):
    """A listener cannot listen; the text says where, why and what to do. `line`: the listener's line, or 0."""

    def __init__(self, listener: Listener, text: str) -> None:
        self.line = listener.line
        super().__init__(f"{_title(listener)}: {text}")


class Listening(msgspec.Struct, frozen=True):
    """The sockets of one listener entity.

    `number` identifies them to workers and is never used again. The first `held` sockets belong to the service
    manager, too.
    """

    listener: Listener
    sockets: list[socket.socket]
    number: int = 0
    held: int = 0
    handover: tuple[socket.socket, socket.socket] | None = None  # the exporter's end, and the workers'

    @property
    def all_sockets(self) -> list[socket.socket]:
        """Its sockets, and the ends of the socket pair."""
        return [*self.sockets, *(self.handover or ())]

    @property
    def urls(self) -> list[str]:
        """The URLs at which clients reach the listener, one for each socket."""
        spoken = "http" if self.listener.http else self.listener.protocol
        scheme = spoken + ("s" if self.listener.ssl_profile else "")
        return [f"{scheme}://{_place(sock)}" for sock in self.sockets]

    def pause(self) -> None:
        """Stop listening in every process that has the sockets, except on those of the service manager."""
        for sock in self.sockets[self.held :]:
            with suppress(OSError):  # it no longer listens anyway
                sock.shutdown(socket.SHUT_RD)

    def resume(self) -> None:
        """Listen again after `pause`."""
        for sock in self.sockets[self.held :]:
            with suppress(OSError):  # another process has taken the port meanwhile
                sock.listen(socket.SOMAXCONN)


numbers = itertools.count(1)  # of listeners and connectors


def look_up(listeners: Sequence[Listener]) -> Lookups:
    """Look up the hosts of listeners, for a bounded time."""
    lookups = [_lookup(one) for one in listeners]
    wait_for([one for one in lookups if one is not None])
    return lookups


def listen_all(
    listeners: Sequence[Listener], passed: Passed | None = None, lookups: Lookups | None = None
) -> list[Listening]:
    """Open the sockets of all listeners, once `lookups` has their hosts. Raises `ListenError`, and leaves none open."""
    passed = passed or Passed()
    listening: list[Listening] = []
    lookups = look_up(listeners) if lookups is None else lookups
    try:
        for listener, lookup in zip(listeners, lookups, strict=True):
            sockets, held = _listen(listener, passed, lookup)
            listening.append(Listening(listener, sockets, next(numbers), held))
            listening[-1] = msgspec.structs.replace(listening[-1], handover=_handover(listener))
    except ListenError:
        close_all(listening)
        raise
    return listening


def close_all(listening: Sequence[Listening]) -> None:
    for one in listening:
        _close(one.all_sockets)


def undo(made: Sequence[Listening], before: Sequence[Listening]) -> None:
    """Close what was made beside the listeners of before, and have all of those listen that made way."""
    there = {sock for one in before for sock in one.all_sockets}
    _close([sock for one in made for sock in one.all_sockets if sock not in there])
    for one in before:
        one.resume()


def kept_by(have: Listening, listener: Listener) -> Listening:
    """Return the same sockets for a listener that has changed. Raises `ListenError`."""
    wanted = listener.http and listener.websockets
    handover = have.handover or _handover(listener) if wanted else None
    return msgspec.structs.replace(have, listener=listener, handover=handover)


def _handover(listener: Listener) -> tuple[socket.socket, socket.socket] | None:
    """Return the socket pair that passes connections for AMQP over WebSockets from the exporter to the workers.

    Raises `ListenError`.
    """
    if not (listener.http and listener.websockets):
        return None
    try:
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    except OSError as error:
        raise ListenError(listener, _explain(listener, _where(listener), error)) from error
    for end in ends:
        end.setblocking(False)
    return ends


def _lookup(listener: Listener) -> Lookup | None:
    """Begin to look up a listener's host; None for an address, or no host, which is known at once."""
    if not listener.host or is_address(listener.host):
        return None
    return Lookup(listener.host, str(listener.port_number), listener.socket_address_family or "")


def _listen(listener: Listener, passed: Passed, lookup: Lookup | None) -> tuple[list[socket.socket], int]:
    """Return a socket for each address of the host, and how many of them the service manager passed."""
    where = _where(listener)
    port = listener.port_number
    wanted = _addresses(listener, where, lookup)
    sockets: list[socket.socket] = []
    try:
        for entry in reversed(wanted[:]):  # IPv6 first: its socket may serve IPv4, too
            place = entry[0], (str(entry[1][0]), port)
            if any(covers(sock, *place) for sock in sockets):
                wanted.remove(entry)
            elif taken := passed.take(listener.name, *place):
                sockets.append(taken)
                wanted.remove(entry)
    except OSError as error:
        _close(sockets)
        raise ListenError(listener, _explain(listener, where, error, passed)) from error
    held = len(sockets)
    unusable: OSError | None = None
    for family, address in wanted:
        try:
            sock = _bound(family, (address[0], port, *address[2:]))
        except OSError as error:
            if error.errno in _NOT_ON_THIS_MACHINE:
                unusable = error
                continue
            _close(sockets)
            raise ListenError(listener, _explain(listener, where, error, passed)) from error
        sockets.append(sock)
        port = port or sock.getsockname()[1]  # any free port, the same for each family
    if not sockets:
        cause = unusable or OSError(errno.EADDRNOTAVAIL, "no address")
        raise ListenError(listener, _explain(listener, where, cause, passed))
    return sockets, held


def _addresses(listener: Listener, where: str, lookup: Lookup | None) -> list[tuple[socket.AddressFamily, _Address]]:
    if lookup is None:
        family = _FAMILIES[listener.socket_address_family]
        port, passive = listener.port_number, socket.AI_PASSIVE
        try:
            entries = socket.getaddrinfo(listener.host or None, port, family, socket.SOCK_STREAM, flags=passive)
        except socket.gaierror as error:
            raise _unknown(listener, where, cause(error)) from error
        found: list[tuple[socket.AddressFamily, _Address]] = [(entry[0], entry[4]) for entry in entries]
    else:
        found = list(lookup.addresses)
    if lookup is not None and not found:
        raise _unknown(listener, where, _why(listener.host, lookup))
    return sorted(found, key=lambda a: (a[0], str(a[1])))


def _why(host: str, lookup: Lookup) -> str:
    """Return why a lookup has no addresses."""
    if not lookup.done:
        return silence()
    try:
        host.encode("idna")
    except UnicodeError:
        return "no name has an empty label, or one of 64 octets"
    return lookup.error.rpartition(": ")[2]


def _unknown(listener: Listener, where: str, why: str) -> ListenError:
    family = f" as {listener.socket_address_family}" if listener.socket_address_family else ""
    return ListenError(
        listener,
        f"host {listener.host!r} of {where} is not known{family} ({why}); "
        "give an address of this machine, a name that resolves, or no host for all interfaces",
    )


def _bound(family: socket.AddressFamily, address: _Address) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart does not wait for old connections
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # IPv4 has its own socket
        sock.setblocking(False)
        sock.bind(address)
        sock.listen(socket.SOMAXCONN)
    except OSError:
        sock.close()
        raise
    return sock


def _where(listener: Listener) -> str:
    return f"{_bracketed(listener.host) or '*'}:{listener.port}"


def _explain(listener: Listener, where: str, error: OSError, passed: Passed | None = None) -> str:
    cause, advice = os.strerror(error.errno or 0), "see the cause"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        advice = "raise the limit (LimitNOFILE=, ulimit -n)"
    elif error.errno == errno.EADDRINUSE and passed is not None and (held := passed.on_port(listener.port_number)):
        cause = f"systemd holds the port for this service, on {' and '.join(held)}, and no other socket fits beside it"
        advice = (
            "give the listener that host (none, for [::]), or change ListenStream= of the socket unit; then "
            "systemctl daemon-reload, stop the socket unit and the service, and start both again"
        )
    elif error.errno == errno.EADDRINUSE:
        cause = "the port is in use, by another process or by another listener"
        advice = f"stop that process (`ss -ltnp sport = :{listener.port_number}` names it), or give another port"
    elif error.errno == errno.EACCES:
        cause = "ports below 1024 need privileges"
        advice = "give a higher port, or grant CAP_NET_BIND_SERVICE"
    elif error.errno in _NOT_ON_THIS_MACHINE:
        cause = "no such address on this machine"
        advice = "give an address that `ip address` lists, or no host for all interfaces"
    return f"cannot listen on {where}: {cause}; {advice}"


def _title(listener: Listener) -> str:
    return f"listener {listener.name}" if listener.name else "listener"


def _close(sockets: Sequence[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def _place(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"{_bracketed(host)}:{port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
