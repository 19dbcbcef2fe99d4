"""Translates auto links, exchanges with bindings, and phases of addresses into the core's set-up."""

from routerd.config import Config
from routerd.config.entities.routing import Address, AutoLink, Binding, Exchange
from routerd.translate.identities import Identities
from shm.contract.routing import AutoLinkSetup, BindingSetup, ExchangeSetup, Routing
from shm.contract.structs import same


def phases_of(address: Address) -> tuple[int, int]:
    """Return the phases of senders and receivers; messages of a waypoint come back in the next phase."""
    ingress, egress = address.ingress_phase, address.egress_phase
    return ingress or 0, int(address.waypoint) if egress is None else egress


def routing(config: Config, identities: Identities) -> Routing:
    """Return the auto links and exchanges of a configuration."""
    entities = [*config.addresses, *config.entities]  # all numbered entities at once
    named = list(zip(entities, identities.of(entities), strict=True))
    bindings: dict[str, list[BindingSetup]] = {}
    for one, identity in named:
        if isinstance(one, Binding):
            bindings.setdefault(one.exchange_name, []).append(_binding(one, identity))
    return Routing(
        [_auto_link(one, identity) for one, identity in named if isinstance(one, AutoLink)],
        [
            _exchange(one, identity, bindings.get(one.name or "", []))
            for one, identity in named
            if isinstance(one, Exchange)
        ],
    )


def _auto_link(link: AutoLink, identity: str) -> AutoLinkSetup:
    phase = link.phase if link.phase is not None else int(link.direction == "in" and not link.fallback)
    return same(
        link,
        AutoLinkSetup,
        identity=identity,
        incoming=link.direction == "in",
        phase=phase,
        container=link.container_id or "",
        external=link.external_address or "",
    )


def _exchange(exchange: Exchange, identity: str, bindings: list[BindingSetup]) -> ExchangeSetup:
    return same(
        exchange,
        ExchangeSetup,
        identity=identity,
        alternate=exchange.alternate_address or "",
        method=exchange.match_method,
        bindings=bindings,
    )


def _binding(binding: Binding, identity: str) -> BindingSetup:
    return BindingSetup(identity, binding.binding_key, binding.next_hop_address, binding.next_hop_phase or 0)
