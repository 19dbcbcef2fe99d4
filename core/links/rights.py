"""Rights of vhost policy to addresses: names, beginnings of names, and patterns (docs/security.md)."""

import logging
import time
from collections.abc import Iterable
from typing import Final

import msgspec

from core.addresses.addresses import Identity, Rules, tokens
from core.addresses.phases import FALLBACK, WAYPOINT
from core.addresses.tenants import FIRST, HEADS, trespasses
from core.links.termini import COORDINATOR, named
from shm.contract.complaints import bursts
from shm.contract.control import AddressSetup
from shm.contract.patterns import WILD, covers
from shm.contract.payloads import Attach, Error
from shm.contract.security import Admission
from shm.contract.spelling import strip_spelling
from shm.contract.text import printable

LOGGER = logging.getLogger("POLICY")

NOT_ALLOWED: Final = "amqp:unauthorized-access"
LONGEST_TOLD: Final = 100  # characters of an address that a refusal names
ANY: Final = "*"

Key = tuple[tuple[tuple[str, ...], tuple[str, ...]] | None, str]  # names and patterns, tenant


class AddressRights:
    """The addresses that one list of names and one of patterns allow.

    Addresses are compared without prefixes that mean nothing (amqp:/, a leading slash), so that another
    spelling grants nothing more.
    """

    def __init__(self, names: Iterable[str], patterns: Iterable[str]) -> None:
        names, patterns = tuple(names), tuple(patterns)
        self.key = names, patterns
        listed = [strip_spelling(name) for name in names]
        self._exact = {name for name in listed if not name.endswith(ANY)}
        self._beginnings = tuple(name[:-1] for name in listed if name.endswith(ANY))
        self._patterns = Rules([AddressSetup(pattern=one) for one in patterns], "unavailable")
        routers = [AddressSetup(pattern=one) for one in patterns if tokens(one)[0] in FIRST]
        self._routers = Rules(routers, "unavailable")
        self._heads = tuple(one for one in self._beginnings if not {".", "/"} & set(one))
        self._covering = [tokens(one) for one in patterns]

    def allow(self, address: str) -> bool:
        """Whether an address, as a client spells it, is allowed."""
        text = strip_spelling(address)
        return text in self._exact or text.startswith(self._beginnings) or self._patterns.matches(text)

    def covers(self, pattern: str) -> bool:
        """Whether one entry of the lists, token by token, covers all addresses of a pattern.

        The pattern `a.b` also means `a/b`, so a name or beginning with a separator covers no pattern.
        """
        parts = tokens(pattern)
        first = "" if parts[0] in WILD else parts[0]
        named = first.startswith(self._heads) or (parts == [first] and first in self._exact)
        return named or any(covers(one, parts) for one in self._covering)

    def lists(self, address: str) -> bool:
        """Whether an entry made for routers' addresses allows one of them; the entry `*` is not."""
        text = strip_spelling(address)
        heads = tuple(one for one in self._beginnings if one.startswith(HEADS))
        return text in self._exact or text.startswith(heads) or self._routers.matches(text)


class Rights:
    """What the policy allows the links of one connection."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.sources = AddressRights(admission.sources, admission.source_patterns)
        self.targets = AddressRights(admission.targets, admission.target_patterns)

    def refusal(self, attach: Attach) -> Error | None:
        """Return why an attach is not allowed, apart from the number of links, or None."""
        may = self._admission
        if attach.coordinator:
            allowed = may.allow_anonymous_sender or self.targets.allow(COORDINATOR)
            return None if allowed else _denied("a transaction coordinator")
        if not may.allow_waypoint_links and any(one.startswith(WAYPOINT) for one in attach.capabilities):
            return Error(NOT_ALLOWED, "waypoint links are not allowed by the policy")
        if not may.allow_fallback_links and FALLBACK in attach.capabilities:
            return Error(NOT_ALLOWED, "fallback links are not allowed by the policy")
        return self._misplaced(attach, "source" if attach.outgoing else "target")

    def routable(self, pattern: str, outgoing: bool) -> bool:
        """Whether the connection may serve a link route for all addresses of a pattern."""
        return (self.sources if outgoing else self.targets).covers(pattern)

    def _misplaced(self, attach: Attach, kind: str) -> Error | None:
        """Return why a terminus is not allowed, or None. Every address that it names must be allowed."""
        may = self._admission
        texts = named(attach)
        if texts is None:
            return Error(NOT_ALLOWED, f"the node properties of this {kind} cannot be read")
        if attach.dynamic and not may.allow_dynamic_source:
            return _denied(f"a dynamic {kind}")
        if not texts and not attach.dynamic and not attach.outgoing and not may.allow_anonymous_sender:
            return _denied("an anonymous sender")
        rights = self.sources if attach.outgoing else self.targets
        wrong = next((text for text in texts if not rights.allow(text)), None)
        return None if wrong is None else _denied(f"the {kind} address '{printable(wrong, LONGEST_TOLD)}'")


def _denied(what: str) -> Error:
    return Error(NOT_ALLOWED, f"{what} is not allowed by the policy")


class Scopes:
    """Numbers the rights and tenants of anonymous senders; the forwarder keeps spellings under these numbers.

    Links with the same rights and tenant share a number while one of them is attached. No number is used
    twice, so what the forwarder keeps under an old one is never found again and makes room in time.
    """

    def __init__(self, me: Identity) -> None:
        self._me = me
        self._lines = bursts()  # of all scopes: one of its own would come anew with each link
        self._last = 0
        self._by_key: dict[Key, Scope] = {}
        self._by_number: dict[int, Scope] = {}

    def __len__(self) -> int:
        return len(self._by_number)

    def enter(self, rights: AddressRights | None, tenant: str = "") -> int:
        """Return the number for another link with these rights and tenant.

        Without vhost policy rights are None.
        """
        key = (None if rights is None else rights.key, tenant)
        scope = self._by_key.get(key)
        if scope is None:
            self._last += 1
            scope = self._by_key[key] = self._by_number[self._last] = Scope(self._last, key, rights)
        scope.links += 1
        return scope.number

    def leave(self, number: int) -> None:
        """Release a number for one detached link."""
        scope = self._by_number[number]
        scope.links -= 1
        if not scope.links:
            del self._by_number[number], self._by_key[scope.key]

    def allow(self, number: int, address: str) -> bool:
        """Whether links with this number may send to an address. Number 0 has no limits."""
        if number == 0:
            return True
        scope = self._by_number.get(number)
        if scope is None:
            return False
        rights, tenant = scope.rights, scope.key[1]
        stranger = bool(tenant) and trespasses(address, self._me, rights, sends=True)
        if not stranger and (rights is None or rights.allow(address)):
            return True
        what = "messages of anonymous senders to '%s' denied by the policy"
        self._lines.tell(time.monotonic(), LOGGER, logging.INFO, what, printable(address, LONGEST_TOLD))
        return False

    def tenant(self, number: int) -> str:
        """Return the tenant of links with this number, or an empty text."""
        scope = self._by_number.get(number)
        return scope.key[1] if scope else ""


class Scope(msgspec.Struct):
    """Rights and tenant under a number, and how many links have it."""

    number: int
    key: Key
    rights: AddressRights | None
    links: int = 0
