"""What listeners and connectors of Ockam nodes are told."""

import msgspec

from shm.contract.source_routes import Stop


class OckamSetup(msgspec.Struct, array_like=True, frozen=True):
    """``bare``: the framing of before June 2024. ``address`` is that of a connector's connection; a
    listener's connections have one that begins with it.

    ``most`` are octets of a frame. ``reach`` are the addresses, no workers', that may be reached from there:
    type, octets, and whether they are only a beginning.
    """

    address: Stop
    bare: bool = False
    most: int = 0
    reach: list[tuple[int, bytes, bool]] = []
