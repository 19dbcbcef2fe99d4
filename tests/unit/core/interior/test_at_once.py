"""What happens at once, such as the news that a receiver has come or gone, and what waits for its turn."""

import pytest

from bench.contract import C_ATTACH, C_CONNECTION_OPENED, C_DETACH
from core.interior.network_adapter import PORTION, NetworkAdapter
from core.interior.nodes import Nodes
from shm.contract.control import AddressSetup, ChangeAddresses
from shm.contract.payloads import Attach, ConnectionOpened, Detach
from tests.support.beds.control import Bed
from tests.support.beds.effort import Effort


class Told:
    """A router protocol that notes what it is told, and when it ticks."""

    last_change = 0

    def __init__(self) -> None:
        self.heard: list[tuple[str, int | None]] = []
        self.ticks = 0
        self.wait: float | None = None

    def local_address(self, key: str, treatment: int | None) -> None:
        """Note it."""
        self.heard.append((key, treatment))

    def tick(self, now: float) -> None:
        """Count it."""
        self.ticks += 1

    def due(self, now: float) -> float | None:
        """What the test says."""
        return self.wait


@pytest.fixture
def told() -> Told:
    """What the protocol of `bed` is told."""
    return Told()


@pytest.fixture
def bed(told: Told) -> Bed:
    """A core of an interior router that has come to rest."""
    made = Bed(mode="interior")
    made.core.plane(NetworkAdapter).start(lambda _: told)  # type: ignore[arg-type,return-value]  this is all that is called
    made.say(C_CONNECTION_OPENED, ConnectionOpened(0, 1, "client", "h:1"))
    for _ in range(3):
        made.step()
    told.heard.clear()
    return made


def test_a_receiver_does_not_wait_for_the_next_second(bed: Bed, told: Told) -> None:
    """Nor does the news that it has gone."""
    before = told.ticks
    bed.say(C_ATTACH, Attach(5, 1, 0, "receiver", True, "x"))
    bed.step()
    assert told.heard == [("M0x", 3)]
    assert told.ticks == before + 1
    assert not bed.core.restless
    bed.say(C_DETACH, Detach(5, 1))
    bed.step()
    assert told.heard[1:] == [("M0x", None)]
    assert told.ticks == before + 2


def test_another_treatment_of_what_receivers_here_have_is_announced(bed: Bed, told: Told) -> None:
    """And no address that has none."""
    bed.say(C_ATTACH, Attach(5, 1, 0, "receiver", True, "x"))
    bed.say(C_ATTACH, Attach(6, 1, 0, "sender", False, "y"))
    bed.step()
    both = [AddressSetup(prefix=prefix, distribution="multicast") for prefix in "xy"]
    bed.core.configure(ChangeAddresses([], both))
    bed.step()
    bed.core.configure(ChangeAddresses(both, []))
    bed.step()
    assert told.heard == [("M0x", 3), ("M0x", 1), ("M0x", 3)]


def test_the_core_sleeps_no_longer_than_addresses_have_to_wait(bed: Bed, told: Told) -> None:
    """And ticks then, though a second is not over."""
    assert bed.core.pause(bed.now) is None
    told.wait = 0.05
    assert bed.core.pause(bed.now) == 50_000_000
    before = told.ticks
    bed.step()
    assert told.ticks == before
    told.wait = 0.0
    bed.step()
    assert told.ticks == before + 1


def test_no_router_has_the_bit_of_one_whose_addresses_still_wait_to_go(bed: Bed) -> None:
    """There may be 100,000 of these, which took one turn when another router came."""
    adapter = bed.core.plane(NetworkAdapter)
    nodes = Nodes(adapter)
    many = nodes.add("many", 0.0)
    assert many is not None
    for keys in ([], [f"Mq.{i}" for i in range(20 * PORTION)]):
        for key in keys:
            adapter.map_destination(key, many.bit, -1)
        while adapter.restless:
            bed.step()
        for key in keys:
            adapter.unmap_destination(key, many.bit)
        nodes.remove(many)
        with Effort() as effort:
            found = nodes.add("many", 0.0)
        assert found is not None
        assert effort.lines < 10 * PORTION
        assert (found.bit == many.bit) == (not keys)
        many = found
    while adapter.restless:
        bed.step()
    first = nodes.add("first", 0.0)
    assert first is not None
    assert first.bit == 1
