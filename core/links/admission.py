"""Vhost policy in the core: limits on connections and links, and what links may be attached.

The core counts because it alone sees the connections of all workers and reclaims those of a dead one. A
worker answers a peer's OPEN at once and reports to the core, which closes a connection beyond a limit. No
client waits for a decision that is nearly always positive, and links wait for the core anyway.
"""

import logging
import time
from collections import Counter
from typing import Final

import msgspec

from core.addresses.addresses import Identity, in_space
from core.addresses.tenants import is_made, trespasses
from core.links.rights import NOT_ALLOWED, AddressRights, Rights, Scopes
from core.links.termini import named, placeable
from shm.contract.complaints import Complaints, bursts
from shm.contract.numbers import counted
from shm.contract.payloads import Attach, ConnectionOpened, Denied, Error
from shm.contract.security import Admission
from shm.statistics.stats import COUNTERS

LOGGER = logging.getLogger("POLICY")

TOO_MANY: Final = "amqp:resource-limit-exceeded"
NO_CONNECTION: Final = Error(TOO_MANY, "connection disallowed by local policy")

NOT_A_TENANTS: Final = Error(
    NOT_ALLOWED, "this address is in no tenant's space, and the user group does not list it by name"
)
NOBODY: Final = Identity("")

REFUSED_CONNECTIONS: Final = COUNTERS["refused_connections"].place
REFUSED_LINKS: Final = COUNTERS["refused_links"].place
REFUSED_ADDRESSES: Final = COUNTERS["refused_addresses"].place

Refusal = tuple[Error, int]  # the error and the counter of such refusals
Key = tuple[int, int]  # worker, index of the connection in it


class Vhost(msgspec.Struct):
    """The totals of one vhost: its present connections by user and host, and what was denied."""

    current: int = 0
    approved: int = 0
    denied: int = 0
    users: Counter[str] = msgspec.field(default_factory=Counter)
    hosts: Counter[str] = msgspec.field(default_factory=Counter)
    senders_denied: int = 0
    receivers_denied: int = 0
    sessions_denied: int = 0
    sizes_denied: int = 0


class Guarded:
    """A connection under vhost policy, with the numbers of links that its peer has attached or that wait."""

    def __init__(self, admission: Admission, peer: str, vhost: Vhost, lines: Complaints) -> None:
        self._lines = lines
        self.admission = admission
        self.peer = peer
        self.vhost = vhost
        self.rights = Rights(admission)
        self.senders = 0  # of the peer
        self.receivers = 0

    def refusal(self, attach: Attach) -> Refusal | None:
        """Return why the policy does not allow another link, with the counter of such refusals, or None."""
        may = self.admission
        if attach.outgoing and self.receivers >= may.max_receivers:
            return Error(TOO_MANY, f"the policy allows {may.max_receivers} receivers"), REFUSED_LINKS
        if not attach.outgoing and self.senders >= may.max_senders:
            return Error(TOO_MANY, f"the policy allows {may.max_senders} senders"), REFUSED_LINKS
        error = self.rights.refusal(attach)
        return None if error is None else (error, REFUSED_ADDRESSES)

    def denied(self, outgoing: bool) -> None:
        """Count a refused link."""
        if outgoing:
            self.vhost.receivers_denied += 1
        else:
            self.vhost.senders_denied += 1

    def say(self, link: str, error: Error) -> None:
        """Log why a link was refused."""
        who = self.admission
        now, what = time.monotonic(), "link %r of %s (user %r, vhost %s) denied: %s"
        self._lines.tell(now, LOGGER, logging.INFO, what, link, self.peer, who.user, who.vhost, error.description)

    def attached(self, outgoing: bool, number: int) -> None:
        """Count a link that was attached or waits (1), or does so no more (-1)."""
        if outgoing:
            self.receivers += number
        else:
            self.senders += number


class Admissions:
    """The connections of all workers that are under vhost policy."""

    def __init__(self, max_connections: int, me: Identity = NOBODY) -> None:
        self._max_connections = max_connections
        self._me = me
        self._lines = bursts()
        self._guarded: dict[Key, Guarded] = {}
        self._denied: dict[Key, tuple[int, str]] = {}  # generations and hosts of denied connections that are closing
        self.vhosts: dict[str, Vhost] = {}
        self.scopes = Scopes(me)
        self.processed = 0
        self.refused = 0

    def set_limit(self, max_connections: int) -> None:
        """Set the limit of all connections. Connections beyond it stay."""
        self._max_connections = max_connections

    def enter(self, key: Key, opened: ConnectionOpened, present: int) -> Error | None:
        """Admit a connection next to ``present`` others, or return the error that it is closed with."""
        self.processed += 1
        why = self._full(opened.admission, present)
        vhost = opened.admission and self.vhosts.setdefault(opened.admission.vhost, Vhost())
        if why:
            self._lines.tell(time.monotonic(), LOGGER, logging.INFO, "connection from %s denied: %s", opened.host, why)
            self.refused += 1
            self._denied[key] = opened.generation, opened.host
            if vhost:
                vhost.denied += 1
            return NO_CONNECTION
        if vhost and opened.admission:
            vhost.current += 1
            vhost.approved += 1
            vhost.users[opened.admission.user] += 1
            vhost.hosts[opened.admission.host] += 1
            self._guarded[key] = Guarded(opened.admission, opened.host, vhost, self._lines)
        return None

    def _full(self, admission: Admission | None, present: int) -> str:
        """Return the limit that another connection would exceed, as a text, or an empty text."""
        if present >= self._max_connections:
            return f"the router has {counted(present, 'connection')} (maxConnections of policy)"
        if admission is None:
            return ""
        vhost = self.vhosts.get(admission.vhost) or Vhost()
        to = f" to vhost {admission.vhost}"
        user, host = vhost.users[admission.user], vhost.hosts[admission.host]
        for who, count, limit, where, name in (
            (f"vhost {admission.vhost}", vhost.current, admission.max_connections, "", "maxConnections"),
            (f"user {admission.user!r}", user, admission.max_connections_per_user, to, "maxConnectionsPerUser"),
            (f"host {admission.host}", host, admission.max_connections_per_host, to, "maxConnectionsPerHost"),
        ):
            if count >= limit:
                return f"{who} has {counted(count, 'connection')}{where}, which is the limit ({name})"
        return ""

    def denied(self, denied: Denied) -> None:
        """Count what a worker has denied by itself. The vhost names are those of the configuration."""
        vhost = self.vhosts.setdefault(denied.vhost, Vhost())
        match denied.what:
            case "session":
                vhost.sessions_denied += 1
            case "message":
                vhost.sizes_denied += 1
            case _:
                vhost.denied += 1

    def of_vhost(self, hostname: str) -> list[Guarded]:
        """Return the present connections to a vhost."""
        return [one for one in list(self._guarded.values()) if one.admission.vhost == hostname]

    def leave(self, key: Key) -> None:
        """Remove a connection that is gone."""
        guarded = self._guarded.pop(key, None)
        if guarded is None:
            return
        vhost, who = guarded.vhost, guarded.admission
        vhost.current -= 1
        what = "connection of %s (user %r, vhost %s) closed; its vhost: senders_denied=%d, receivers_denied=%d"
        LOGGER.debug(what, guarded.peer, who.user, who.vhost, vhost.senders_denied, vhost.receivers_denied)
        for counter, name in ((vhost.users, who.user), (vhost.hosts, who.host)):
            counter[name] -= 1
            if not counter[name]:
                del counter[name]

    def was_denied(self, key: Key, generation: int) -> bool:
        """Whether this connection was denied. The answer is forgotten once given."""
        denied, _ = self._denied.get(key, (None, ""))
        return denied == generation and bool(self._denied.pop(key))

    def denied_host(self, key: Key) -> str:
        """Return the host of a connection that was denied and is closing, or an empty text."""
        return self._denied.get(key, (0, ""))[1]

    def forget_worker(self, worker: int) -> None:
        """Forget all connections of a dead worker."""
        for key in [key for key in self._guarded if key[0] == worker]:
            self.leave(key)
        for key in [key for key in self._denied if key[0] == worker]:
            del self._denied[key]

    def refusal(self, guarded: Guarded | None, attach: Attach, connection: ConnectionOpened | None) -> Refusal | None:
        """Return why an attach is not allowed, with the counter of such refusals, or None."""
        if attach.restored:
            return None
        refusal = None if guarded is None else guarded.refusal(attach)
        tenant = "" if connection is None else connection.tenant
        if refusal is None and tenant and self._trespasses(guarded, attach):
            refusal = NOT_A_TENANTS, REFUSED_ADDRESSES
        return refusal

    def _trespasses(self, guarded: Guarded | None, attach: Attach) -> bool:
        texts = named(attach)
        if texts is None or not placeable(attach):
            return True  # a broker would see an address without the tenant in front
        rights = None
        if guarded is not None:
            rights = guarded.rights.sources if attach.outgoing else guarded.rights.targets
        return any(trespasses(text, self._me, rights, sends=not attach.outgoing) for text in texts)

    def waits(self, worker: int, attach: Attach, number: int) -> None:
        """Count a link that waits until others have answered (1), or waits no more (-1).

        Without this, all links of a client would pass its limits that come before the first answer.
        """
        if (guarded := self._guarded.get((worker, attach.connection))) is not None:
            guarded.attached(attach.outgoing, number)

    def reply_to(self, guarded: Guarded | None, tenant: str, text: str) -> str | None:
        """Return a reply-to as the whole network spells it, or None if answers there are not for the client.

        Those are for it that go to a name which a router has made up, or to an address that the client itself may
        send to or receive from.
        """
        lists = (None,) if guarded is None else (guarded.rights.targets, guarded.rights.sources)
        if is_made(text) or any(self._answerable(one, tenant, text) for one in lists):
            return in_space(text, tenant, self._me)
        return None

    def _answerable(self, rights: AddressRights | None, tenant: str, text: str) -> bool:
        allowed = rights is None or rights.allow(text)
        return allowed and not (tenant and trespasses(text, self._me, rights, sends=False))

    def guarded(self, key: Key) -> Guarded | None:
        """Return a connection under vhost policy, or None if no policy applies to it."""
        return self._guarded.get(key)
