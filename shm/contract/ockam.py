"""The configuration of listeners and connectors that speak Ockam's TCP transport."""

import msgspec

from shm.contract.source_routes import Stop


class OckamSetup(msgspec.Struct, array_like=True, frozen=True):
    """The Ockam settings of one listener or connector.

    ``address`` is the address of a connector's connection, and a prefix of those of a listener's connections.
    ``bare`` selects the framing from before June 2024. ``most`` bounds a frame, in octets. ``reach`` lists
    the permitted addresses besides those of route workers: type, octets, and whether they are a prefix.
    """

    address: Stop
    bare: bool = False
    most: int = 0
    reach: list[tuple[int, bytes, bool]] = []
