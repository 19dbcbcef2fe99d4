"""The addresses that `remoteHosts` of a policy allow; it looks up names.

All names are looked up at the same time, for a bounded time (routerd.machine.lookups). A name is looked up once until
a reload: a change by management waits only for names that are new. A name that has no answer then keeps the addresses
that it had.
"""

from collections.abc import Iterable
from typing import NamedTuple

from routerd.machine.lookups import silence, wait_for
from workers.control.lookup import Lookup, is_address

_known: dict[str, "Found"] = {}  # by name
_former: dict[str, "Found"] = {}  # what was known before the last reload


class Found(NamedTuple):
    """The ranges of a host, first and last address of each, and why there are none or only former ones."""

    ranges: tuple[tuple[str, str], ...]
    why: str = ""


def forget() -> None:
    """Have all names looked up again: they may have other addresses now, or some at last."""
    _former.update(_known)
    _known.clear()


def look_up(hosts: Iterable[str]) -> dict[str, Found]:
    """Return what hosts stand for: addresses, ranges ``first-last``, and names. No others are wanted."""
    found = {host: _written(host) for host in hosts}
    asked = {host: Lookup(host, "0") for host, there in found.items() if there is None and host not in _known}
    wait_for(asked.values())
    _known.update({host: _answer(host, one) for host, one in asked.items()})
    _former.clear()
    return {host: _known[host] if there is None else there for host, there in found.items()}


def _written(host: str) -> Found | None:
    first, dash, last = host.partition("-")
    if dash and is_address(first) and is_address(last):
        return Found(((first, last),))
    return Found(((host, host),)) if is_address(host) else None


def _answer(host: str, lookup: Lookup) -> Found:
    if not lookup.done or not lookup.answered:
        former = _former.get(host, Found(()))
        silent = f"host {host} is not known: {silence()}; reload when it does"
        return Found(former.ranges, lookup.error if lookup.done else silent)
    addresses = sorted({str(address[0]) for _, address in lookup.addresses})
    return Found(tuple((address, address) for address in addresses), lookup.error)
