"""Translates auto links, exchanges with bindings, and phases of addresses into the core's set-up."""

from routerd.config import Config
from routerd.config.entities.attribute import Entity
from routerd.config.entities.routing import Address, AutoLink, Binding, Exchange
from routerd.translate.identities import Identities
from shm.contract.routing import AutoLinkSetup, BindingSetup, ExchangeSetup, Routing


def phases_of(address: Address) -> tuple[int, int]:
    """Return the phases of senders and receivers; messages of a waypoint come back in the next phase."""
    ingress, egress = address.ingress_phase, address.egress_phase
    return ingress or 0, int(address.waypoint) if egress is None else egress


def routing(config: Config, identities: Identities) -> Routing:
    """Return the auto links and exchanges of a configuration."""
    named = _identities(config, identities)
    exchanges: dict[str, ExchangeSetup] = {}
    links: list[AutoLinkSetup] = []
    for entity, identity in named:
        match entity:
            case AutoLink():
                links.append(_auto_link(entity, identity))
            case Exchange():
                exchanges[entity.name or ""] = _exchange(entity, identity)
    for entity, identity in named:
        if isinstance(entity, Binding):
            exchanges[entity.exchange_name].bindings.append(_binding(entity, identity))
    return Routing(links, list(exchanges.values()))


def _identities(config: Config, identities: Identities) -> list[tuple[Entity, str]]:
    """Return entities with their identities; the identities of all numbered entities come at once."""
    entities = [*config.addresses, *config.entities]
    return list(zip(entities, identities.of(entities), strict=True))


def _auto_link(link: AutoLink, identity: str) -> AutoLinkSetup:
    phase = link.phase if link.phase is not None else int(link.direction == "in" and not link.fallback)
    return AutoLinkSetup(
        identity=identity,
        address=link.address,
        incoming=link.direction == "in",
        phase=phase,
        container=link.container_id or "",
        connection=link.connection or "",
        external=link.external_address or "",
        fallback=link.fallback,
        name=link.name or "",
    )


def _exchange(exchange: Exchange, identity: str) -> ExchangeSetup:
    return ExchangeSetup(
        identity=identity,
        address=exchange.address,
        phase=exchange.phase or 0,
        alternate=exchange.alternate_address or "",
        alternate_phase=exchange.alternate_phase or 0,
        method=exchange.match_method,
        bindings=[],
    )


def _binding(binding: Binding, identity: str) -> BindingSetup:
    return BindingSetup(identity, binding.binding_key, binding.next_hop_address, binding.next_hop_phase or 0)
