"""The core's configuration beyond addresses: auto links, exchanges and the router protocol's timers.

``identity`` is the entity's identity in management.
"""

import msgspec


class AutoLinkSetup(msgspec.Struct, frozen=True):
    """One ``autoLink`` entity; ``container`` or ``connection`` selects its connections.

    The router receives from the peer on an ``incoming`` link. An auto link without either selects none.
    """

    identity: str
    address: str
    incoming: bool
    phase: int
    container: str = ""
    connection: str = ""
    external: str = ""  # the address at the peer; empty: the same
    fallback: bool = False
    name: str = ""


class BindingSetup(msgspec.Struct, frozen=True):
    """One ``binding`` entity; a ``key`` of None matches all messages."""

    identity: str
    key: str | None
    next_hop: str
    phase: int = 0


class ExchangeSetup(msgspec.Struct, frozen=True):
    """One ``exchange`` entity with its bindings; ``method`` is amqp or mqtt, ``alternate`` may be empty."""

    identity: str
    address: str
    phase: int = 0
    alternate: str = ""
    alternate_phase: int = 0
    method: str = "amqp"
    bindings: list[BindingSetup] = []


class Routing(msgspec.Struct, frozen=True):
    """All auto links and exchanges."""

    auto_links: list[AutoLinkSetup] = []
    exchanges: list[ExchangeSetup] = []


class NetworkSetup(msgspec.Struct, frozen=True):
    """The router protocol's timers in seconds, from the ``router`` entity."""

    hello_interval_seconds: int = 1
    hello_max_age_seconds: int = 3
    ra_interval_seconds: int = 30
    ra_interval_flux_seconds: int = 4
    remote_ls_max_age_seconds: int = 60
    unreachable_holdoff_seconds: int = 1
