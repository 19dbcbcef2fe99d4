"""A router as source routes know it: its route workers, and what holds for all of them."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from routerd.source_routes.address import Address
from tests.model.source_routes.access import Access
from tests.model.source_routes.workers import Worker


class Limits(NamedTuple):
    """Limits of one message. The octets of a route are those of its addresses, without their lengths."""

    hops: int = 64
    onward: int = 32
    returning: int = 64
    address_octets: int = 255
    route_octets: int = 4096
    nesting: int = 8
    meta_keys: int = 16
    meta_octets: int = 1024
    lenient_tail: bool = False  # a zero octet may follow a BARE message of version 1


class MetaClass(Enum):
    """What route workers may do with a key of the metadata (docs/source-routes.md)."""

    CARRY = "carry"
    APPEND = "append"
    LOCAL = "local"
    SEALED = "sealed"


class Classes(Struct, frozen=True):
    """The declared keys by class; every other key is of class carry."""

    of: Mapping[str, MetaClass]

    def __getitem__(self, key: str) -> MetaClass:
        return self.of.get(key, MetaClass.CARRY)


class Rules(Struct, frozen=True):
    """What holds for all route workers of a router."""

    limits: Limits = Limits()
    classes: Classes = Classes({"trace": MetaClass.APPEND})


class Place(Struct, frozen=True):
    """A router: its name, its route workers by every address of theirs, and who may reach what."""

    name: str
    workers: Mapping[Address, Worker]
    access: Access = Access()
    rules: Rules = Rules()
