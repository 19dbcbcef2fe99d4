"""The parts of a blueprint that change with the configuration while the router runs."""

from collections.abc import Sequence
from typing import Any

from routerd.config import Config
from routerd.config.entities.policy import Vhost
from routerd.config.entities.routing import LinkRoute
from routerd.config.entities.transport import AuthServicePlugin, SslProfile
from routerd.translate.connectors import Connecting, assign
from routerd.translate.flow_log import flow_setup
from routerd.translate.identities import Identities
from routerd.translate.management import management
from routerd.translate.routing import routing
from routerd.translate.source_routes import source_routes
from routerd.translate.tables import tables


def profiles(config: Config) -> tuple[SslProfile, ...]:
    """Return the sslProfiles of a configuration."""
    return tuple(entity for entity in config.entities if isinstance(entity, SslProfile))


def configured(config: Config, identities: Identities, connecting: Sequence[Connecting]) -> dict[str, Any]:
    """Return the parts of a blueprint that change with the configuration, without the sockets."""
    return {
        "addresses": config.addresses,
        "logs": config.logs,
        "profiles": profiles(config),
        "plugins": tuple(entity for entity in config.entities if isinstance(entity, AuthServicePlugin)),
        "policy": config.policy,
        "vhosts": tuple(entity for entity in config.entities if isinstance(entity, Vhost)),
        "connecting": assign(connecting, config.connectors, config.router.workers),
        "link_routes": tuple(entity for entity in config.entities if isinstance(entity, LinkRoute)),
        "management": management(config, identities),
        "routing": routing(config, identities),
        "source_routes": source_routes(config, identities),
        "flow": flow_setup(config),
        "tables": tables(config),
    }
