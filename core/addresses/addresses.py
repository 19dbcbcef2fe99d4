"""Addresses: how clients spell them, which keys they have, and how their messages are distributed.

A spelling is normalised to a key, whose first letter is its class, as in the tables and tools of
qpid-dispatch: M mobile, L local to this router, T every router, R another router, A another area, H an edge
router. Configured prefixes and patterns give mobile addresses their treatment.
"""

import logging
import re
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec

from core.addresses.agent_address import is_agent
from core.forwarder.forward import PHASES, Forwarder
from shm.contract.chunked import Chunked, Rows
from shm.contract.control import AddressSetup
from shm.contract.patterns import WILD, Patterns, SearchTooLongError
from shm.contract.sparse import thinned
from shm.contract.spelling import strip_spelling

LOGGER = logging.getLogger("ROUTER_CORE")

# Indices: core_treatment in core/forwarder/tables/tables.h. The last two are for messages between routers only.
TREATMENTS: Final = ("closest", "balanced", "multicast", "unavailable", "control", "flood")
_SEPARATORS: Final = re.compile(r"[./]")
_ANY_AREA: Final = "all"
BEYOND: Final = "L_edge"  # on an edge router: the address of everything beyond its uplink
_MANAGEMENT: Final = ("M0$management", "L$management")
# Work per call of `settle`, in units of one address checked: less than half a millisecond.
EFFORT: Final = 400
_SEARCH_EFFORT: Final = 20  # of looking up the rule of one address, at least
_STEPS: Final = 2  # of a search, for one unit of effort
# Generated names come and go with their clients, and each would be a new time series in the metrics.
_TEMPORARY: Final = ("Ltemp.", "M0_$temp.")
FALLBACK: Final = "F"  # the phase of fallback destinations
_WITH_FALLBACK: Final = ("0", FALLBACK)


class Identity(msgspec.Struct, frozen=True):
    """The identity of this router in the network."""

    router_id: str
    area: str = "0"
    edge: bool = False


def address_key(text: str, me: Identity, phase: int = 0) -> str:
    """Return the key of an address as a client spells it. Only a mobile key contains the phase."""
    text = strip_spelling(text)
    head, _, rest = text.partition("/")
    if head == "_local" and rest:
        return _local_key(rest)
    if head == "_topo":
        return _topological_key(rest, me) or f"M{phase}{text}"
    if head == "_edge":
        router, slash, local = rest.partition("/")
        if slash:
            if router == me.router_id:
                return _local_key(local)
            return BEYOND if me.edge else f"H{router}"
    return f"M{phase}{text}"


def _topological_key(rest: str, me: Identity) -> str | None:
    area, slash, rest = rest.partition("/")
    router, second, local = rest.partition("/")
    if not slash:
        return None
    if area not in (me.area, _ANY_AREA):
        return BEYOND if me.edge else f"A{area}"
    if not second:
        return None
    if router == _ANY_AREA:
        return f"T{local}"
    if router == me.router_id:
        return _local_key(local)
    return BEYOND if me.edge else f"R{router}"


def _local_key(rest: str) -> str:
    """Return the key of a local name. qpid-dispatch's address mapping calls the agent `agent`."""
    return "L$management" if rest == "agent" else f"L{rest}"


def spelling(key: str) -> str:
    """Return the address of a key as clients write it."""
    match key[0]:
        case "M":
            return key[2:]
        case "L":
            return f"_local/{key[1:]}"
        case "T":
            return f"_topo/0/all/{key[1:]}"
        case _:
            return key


def in_space(text: str, tenant: str, me: Identity) -> str:
    """Return the address that a tenant's client means: a mobile one lies below the tenant's name."""
    if not tenant:
        return text
    key = address_key(text, me)
    return f"{tenant}/{mobile_text(key)}" if lies_in_a_space(key) else text


def lies_in_a_space(key: str) -> bool:
    """Whether a tenant's clients have their own address of this key.

    All others mean the same to everybody.
    """
    return key.startswith("M") and not key.startswith("M0_$temp.")


def mobile_text(key: str) -> str:
    """Return the address in a mobile key, without class and phase."""
    return key[2:]


class Rule(msgspec.Struct, frozen=True):
    """How messages to an address are distributed. Without ``priority`` each message's own counts."""

    distribution: str
    priority: int | None = None
    ingress: int = 0  # the phase in which senders send
    egress: int = 0
    fallback: bool = False  # messages without a receiver go to the fallback destination
    max_senders: int = 0  # senders per address by this router's clients; 0: no limit
    max_receivers: int = 0
    capacity: int = 0  # credit of each of these senders; 0: the listener's

    @property
    def treatment(self) -> int:
        return TREATMENTS.index(self.distribution)


UNSEARCHABLE: Final = Rule("unavailable")  # of an address whose search takes too many steps


class Rules:
    """The configured prefixes and patterns of addresses."""

    def __init__(self, setups: Iterable[AddressSetup], default: str) -> None:
        self.default = Rule(default)
        self._patterns: Patterns[Rule] = Patterns()
        for setup in setups:
            self.insert(setup)

    def insert(self, setup: AddressSetup) -> None:
        """Add the rule of a configured address."""
        self._patterns.insert(tokens(_pattern(setup)), _rule(setup))

    def remove(self, setup: AddressSetup) -> None:
        """Remove the rule of a configured address; no-op if absent."""
        self._patterns.remove(tokens(_pattern(setup)))

    def find(self, text: str) -> Rule:
        """Return the rule of a mobile address; UNSEARCHABLE if it takes too many steps to find."""
        try:
            return self._patterns.find(tokens(text)) or self.default
        except SearchTooLongError as error:
            LOGGER.debug("an address is unavailable: %s", error)
            return UNSEARCHABLE

    def matches(self, text: str) -> bool:
        """Whether a prefix or pattern matches an address. Not if that takes too many steps to find."""
        found = self.find(text)
        return found is not self.default and found is not UNSEARCHABLE

    @property
    def effort(self) -> int:
        """The effort of the last search."""
        return max(_SEARCH_EFFORT, self._patterns.steps // _STEPS)


def _pattern(setup: AddressSetup) -> str:
    return setup.pattern if setup.pattern is not None else f"{setup.prefix}.#"


def _head(setup: AddressSetup) -> str:
    """Return the literal tokens with which a rule's addresses begin, joined by dots."""
    found = tokens(_pattern(setup))
    literal = next((i for i, token in enumerate(found) if token in WILD), len(found))
    return ".".join(found[:literal])


def _rule(setup: AddressSetup) -> Rule:
    phases = setup.ingress_phase, setup.egress_phase
    limits = setup.max_senders, setup.max_receivers, setup.link_capacity
    return Rule(setup.distribution, setup.priority, *phases, setup.fallback, *limits)


def tokens(text: str) -> list[str]:
    """Return what stands between the separators of an address or a pattern."""
    return _SEPARATORS.split(strip_spelling(text))


def _begins(key: str, heads: tuple[str, ...]) -> bool:
    """Whether rules with these literal beginnings may apply to a key."""
    return key[0] == "M" and strip_spelling(mobile_text(key)).replace("/", ".").startswith(heads)


class Address(msgspec.Struct):
    """An address in the forwarder's table."""

    key: str
    handle: int
    rule: Rule
    to_core: bool = False  # the core itself receives from it
    hint: Rule | None = None  # its rule where none is configured, as another router announced it; None: the default


class Scopes(Protocol):
    """What the core knows of anonymous senders by their scope number."""

    def allow(self, number: int, address: str) -> bool: ...
    def tenant(self, number: int) -> str: ...


class Addresses:
    """All addresses in use. An address without links and spellings is forgotten."""

    def __init__(self, forwarder: Forwarder, me: Identity, rules: Rules) -> None:
        self._forwarder = forwarder
        self._me = me
        self._rules = rules
        self._by_key: dict[str, Address] = {}
        self._by_handle = Chunked[Address]()
        self._fixed: dict[str, Rule] = {}
        self._kept: set[str] = set()
        self._unsure: list[Address] = []  # addresses whose rule may have changed
        self._heads: tuple[str, ...] = ()  # only those that begin so
        self.tables: set[str] = set()  # keys of the addresses of route tables
        self.watchers: list[Callable[[Address, bool], None]] = []  # called for new and removed addresses
        self.changed: Callable[[Address], None] = lambda address: None  # called for an address with another rule

    def __len__(self) -> int:
        return len(self._by_key)

    def rule(self, key: str) -> Rule:
        """Return the rule of a key: the configured one for mobile addresses other than the agent's."""
        if key in _MANAGEMENT:
            return Rule("closest")
        if key in self._fixed:
            return self._fixed[key]
        match key[0]:
            case "M" if not key.startswith("M0_$temp."):
                return self._rules.find(mobile_text(key))
            case "T":
                return Rule("multicast")
            case "R":
                return Rule("closest")
            case _:
                return Rule("balanced")

    def set_rules(self, rules: Rules) -> None:
        """Replace all rules. Addresses in use change once ``settle`` is through."""
        self._rules = rules
        self._doubt(("",))

    def change_rules(self, gone: Iterable[AddressSetup], new: Iterable[AddressSetup]) -> None:
        """Remove and add some rules. Only addresses that these may concern are looked up again."""
        heads: set[str] = set()
        for setup in gone:
            self._rules.remove(setup)
            heads.add(_head(setup))
        for setup in new:
            self._rules.insert(setup)
            heads.add(_head(setup))
        self._doubt(tuple(heads))

    def _doubt(self, heads: tuple[str, ...]) -> None:
        self._heads = (*self._heads, *heads) if self._unsure else heads
        self._unsure = list(self.entries())

    @property
    def unsettled(self) -> bool:
        """Whether addresses in use may still have a former rule."""
        return bool(self._unsure)

    def settle(self, effort: int = EFFORT) -> None:
        """Apply the present rules to some of the addresses in use. ``effort`` bounds the work."""
        while effort > 0 and self._unsure:
            address = self._unsure.pop()
            effort -= 1
            if _begins(address.key, self._heads) and self._by_key.get(address.key) is address:
                self._follow_rules(address)
                effort -= self._rules.effort

    def _hinted(self, key: str, hint: Rule | None) -> Rule:
        """Return the rule of a key that other routers may have announced with a rule of theirs."""
        rule = self.rule(key)
        return hint if hint and rule is self._rules.default else rule

    def _follow_rules(self, address: Address) -> None:
        rule = self._hinted(address.key, address.hint)
        if rule != address.rule:
            permitted, address.rule = address.rule.fallback, rule
            priority = -1 if rule.priority is None else rule.priority
            self._forwarder.set_treatment(address.handle, rule.treatment, priority)
            LOGGER.debug("address %s is %s now", address.key, rule.distribution)
            if rule.fallback != permitted:
                self._link_fallback(address.key)
            self.changed(address)

    def fix(self, text: str, rule: Rule) -> None:
        """Give an address of the router itself a rule, whatever is configured."""
        self._fixed[address_key(text, self._me)] = rule

    def resolve(self, text: str, tenant: str = "", phase: int = 0) -> Address:
        """Return the address that a client means, and make it if it is new."""
        return self.of_key(address_key(in_space(text, tenant, self._me), self._me, phase))

    def terminus(self, text: str, tenant: str = "", *, outgoing: bool, phase: str | None = None) -> Address:
        """Return the address of a link. ``phase`` is the requested one, or None for the configured one."""
        key = address_key(in_space(text, tenant, self._me), self._me)
        if key[0] != "M" or key.startswith(_TEMPORARY):
            return self.of_key(key)
        if phase is None:
            rule = self.rule(key)
            phase = str(rule.egress if outgoing else rule.ingress)
        return self.of_key(f"M{phase}{mobile_text(key)}")

    def _link_fallback(self, key: str) -> None:
        """Connect an address with its fallback destination, whichever was made last."""
        if key[0] != "M" or key[1] not in _WITH_FALLBACK:
            return
        one, other = (self._by_key.get(f"M{phase}{mobile_text(key)}") for phase in _WITH_FALLBACK)
        if one is not None and one.rule.fallback and other is not None:
            self._forwarder.set_fallback(one.handle, other.handle)
        elif one is not None:
            self._forwarder.set_fallback(one.handle)

    def of_key(self, key: str, hint: Rule | None = None) -> Address:
        """Return the address of a key, and make it if it is new.

        ``hint`` is its rule if none is configured, unless the address was there before without a hint.
        """
        known = self._by_key.get(key)
        if known is not None:
            if hint and known.hint and hint != known.hint:
                known.hint = hint
                self._follow_rules(known)
            return known
        rule = self._hinted(key, hint)
        priority = -1 if rule.priority is None else rule.priority
        phase = int(key[1]) if key[0] == "M" and key[1:2].isdecimal() else 0
        handle = self._forwarder.add_address(rule.treatment, priority, not key.startswith(_TEMPORARY), phase)
        address = self._by_key[key] = Address(key, handle, rule, hint=hint)
        self._by_handle[handle] = address
        if rule.fallback:
            self._link_fallback(key)
        LOGGER.debug("address %s added, %s", key, rule.distribution)
        for watch in self.watchers:
            watch(address, True)
        return address

    def of_handle(self, handle: int) -> Address | None:
        """Return the address with this handle of the forwarder, or None."""
        return self._by_handle.get(handle)

    def find(self, text: str) -> Address | None:
        """Return the address that a client means if it is in use, or None."""
        return self.known(address_key(text, self._me))

    def known(self, key: str) -> Address | None:
        """Return the address of a key if it is in use, or None."""
        return self._by_key.get(key)

    def entries(self) -> Rows[Address]:
        """Return all addresses in use, in a stable order. Those that go meanwhile are left out."""
        return self._by_handle.rows()

    def learn(self, spelling: bytes, scope: int = 0, scopes: Scopes | None = None) -> None:
        """Give the forwarder the address of an anonymous message's spelling, or a refusal."""
        while (idle := self._forwarder.evict_alias()) is not None:
            if (address := self.of_handle(idle)) is not None:
                self.forget_idle(address)
        text = spelling.decode("utf-8", "surrogateescape")
        handle = 0
        if scope > PHASES:
            handle = self.resolve(text, phase=scope - PHASES).handle
        elif scopes is None:
            handle = self.resolve(text).handle
        elif scopes.allow(scope, text):
            handle = self.resolve(text, scopes.tenant(scope)).handle
        agent = is_agent(in_space(text, "" if scopes is None else scopes.tenant(scope), self._me))
        self._forwarder.add_alias(spelling, handle, scope, agent)

    def keep(self, address: Address) -> None:
        """Keep an address even if nothing uses it."""
        self._kept.add(address.key)

    def release(self, address: Address) -> None:
        """Let an address be forgotten again once nothing uses it."""
        self._kept.discard(address.key)
        self.forget_idle(address)

    def forget_idle(self, address: Address) -> None:
        """Forget an address unless something uses it; no-op if it is gone already."""
        if address.key in self._kept:
            return
        if self._by_key.get(address.key) is address and self._forwarder.remove_address(address.handle):
            del self._by_key[address.key]
            self._by_handle.remove(address.handle)
            self._by_key = thinned(self._by_key)
            LOGGER.debug("address %s removed", address.key)
            for watch in self.watchers:
                watch(address, False)
