"""Rules for addresses that change while the router runs."""

from core.addresses import TREATMENTS, Addresses, Identity, Rules
from shm.control import AddressSetup


class Tables:
    """A forwarder's table of addresses as far as treatments go."""

    def __init__(self) -> None:
        self.treatments: dict[int, tuple[str, int]] = {}

    def add_address(self, treatment: int, priority: int = -1, listed: bool = True, phase: int = 0) -> int:
        handle = len(self.treatments) + 1
        self.set_treatment(handle, treatment, priority)
        return handle

    def set_treatment(self, handle: int, treatment: int, priority: int = -1) -> None:
        self.treatments[handle] = (TREATMENTS[treatment], priority)

    def remove_address(self, handle: int) -> bool:
        return False

    def add_alias(self, text: bytes, handle: int) -> int:
        return 0


def test_addresses_in_use_follow_the_new_rules() -> None:
    """Those that the rules name change; others, and those that rules never touch, stay."""
    tables = Tables()
    addresses = Addresses(tables, Identity("me"), Rules([AddressSetup(prefix="a")], "closest"))
    texts = ("a.x", "b.x", "_local/l", "_topo/0/all/t")
    handles = {text: addresses.resolve(text).handle for text in texts}
    addresses.set_rules(
        Rules([AddressSetup(pattern="a.*", distribution="multicast", priority=7)], "balanced")
    )
    assert {text: tables.treatments[handle] for text, handle in handles.items()} == {
        "a.x": ("multicast", 7),
        "b.x": ("balanced", -1),
        "_local/l": ("balanced", -1),
        "_topo/0/all/t": ("multicast", -1),
    }
    assert addresses.resolve("a.y").rule.distribution == "multicast"
