"""Rules of exchanges and their bindings."""

from collections.abc import Iterator

from core.addresses.agent_address import is_agent
from routerd.config.entities.routing import AutoLink, Binding, Exchange
from routerd.config.formats.source import Mistake, shown
from routerd.config.rules.check import Checked, each
from shm.contract.spelling import strip_spelling


def check_exchanges(checked: list[Checked]) -> Iterator[Mistake]:
    """Yield mistakes: each exchange has a name and an address of its own, and no two bindings are equal."""
    methods: dict[str | None, str] = {}
    addresses: dict[str, Checked] = {}
    for at, exchange in each(checked, Exchange):
        if not exchange.name:
            yield at.mistake("name", "is missing; give one, for bindings to refer to")
        methods[exchange.name] = exchange.match_method
        first = addresses.setdefault(strip_spelling(exchange.address), at)
        if first is not at:
            text = f"{shown(exchange.address)} is the address of the exchange {first.where(at)}; give another"
            yield at.mistake("address", text)
    bindings: dict[tuple[str, str, str, int], Checked] = {}
    for at in checked:
        yield from _agents(at)
        if isinstance(at.entity, Binding):
            yield from _binding(at, at.entity, methods.get(at.entity.exchange_name, ""), bindings)


def _agents(at: Checked) -> Iterator[Mistake]:
    """Yield mistakes of management addresses: an exchange's messages have no user to check."""
    match at.entity:
        case Exchange(alternate_address=str(address)):
            attribute = "alternateAddress"
        case Binding(next_hop_address=address):
            attribute = "nextHopAddress"
        case AutoLink(address=address, direction="in"):
            attribute = "address"
        case _:
            return
    if is_agent(address):
        yield at.mistake(attribute, f"{shown(address)} is a management address; give another")


def _binding(
    at: Checked, binding: Binding, method: str, seen: dict[tuple[str, str, str, int], Checked]
) -> Iterator[Mistake]:
    key = binding.binding_key or "#"
    if method == "mqtt" and "#" in key.split("/")[:-1]:
        yield at.mistake("bindingKey", f"{shown(key)} has # before its end; put it at the end")
    same = (binding.exchange_name, key, binding.next_hop_address, binding.next_hop_phase or 0)
    first = seen.setdefault(same, at)
    if first is not at:
        yield at.mistake("bindingKey", f"repeats the binding {first.where(at)}; remove one of them")
