"""The credit of a link: what is configured is exact, and what is not may grow."""

import pytest

from core.addresses.addresses import Address, Rule
from core.links.terminus import MAX_CAPACITY, Credit, Place, credit_of
from shm.contract.payloads import Attach


def attach(capacity: int, *, granted: int | None = None, outgoing: bool = False) -> Attach:
    restored = granted is not None
    return Attach(0, 1, 0, "l", outgoing, "a", capacity=capacity, restored=restored, granted=granted or 0)


@pytest.mark.parametrize(
    ("asked", "credit"),
    [
        (attach(0), Credit(250, grows=True)),
        (attach(0, outgoing=True), Credit(250)),
        (attach(250), Credit(250)),
        (attach(7), Credit(7)),
        (attach(2_000_000), Credit(MAX_CAPACITY)),
        (attach(0, granted=700), Credit(250, 700, grows=True)),
        (attach(0, granted=-2_000_000), Credit(250, -MAX_CAPACITY, grows=True)),
        (attach(20, granted=700), Credit(20, 20)),
    ],
)
def test_credit_by_what_the_listener_says(asked: Attach, credit: Credit) -> None:
    """0: it says nothing; a new core learns what an earlier one has granted."""
    assert credit_of(asked) == credit


@pytest.mark.parametrize(
    ("asked", "own", "credit"),
    [
        (attach(0), 10, Credit(10, reported=10)),
        (attach(0), 600, Credit(250)),
        (attach(1000), 600, Credit(600, reported=600)),
        (attach(10, granted=10), 10, Credit(10, 10)),
    ],
)
def test_credit_of_an_address_with_its_own(asked: Attach, own: int, credit: Credit) -> None:
    """The smaller one counts; none of them grows."""
    assert credit_of(asked, Address("Ma", 1, Rule("balanced", capacity=own))) == credit


def test_credit_of_the_links_of_edge_routers() -> None:
    """Some carry a few messages only."""
    assert credit_of(attach(0), None, Place()) == Credit(250, grows=True)
    assert credit_of(attach(0), None, Place(capacity=30)) == Credit(30)
    assert credit_of(attach(5), None, Place(capacity=30)) == Credit(5)
