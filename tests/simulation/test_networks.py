"""Random lives of networks (make simulate has more), and faults that they find."""

from collections.abc import Callable

import msgspec
import pytest

from core.interior.mobile import MobileUpdate
from core.interior.neighbours import Neighbour, Neighbours
from core.interior.sync import MobileSync
from tests.model.random_network import RandomNetwork
from tests.model.random_protocol import RandomProtocol

News = Callable[[MobileSync, float], MobileUpdate | None]

LIVES = 6


def lives(kind: type[RandomNetwork | RandomProtocol]) -> None:
    for seed in range(LIVES):
        kind(seed).live()


@pytest.mark.parametrize("kind", [RandomNetwork, RandomProtocol])
def test_random_lives(kind: type[RandomNetwork | RandomProtocol]) -> None:
    lives(kind)


def first(self: Neighbours, router: str) -> Neighbour | None:
    return next((one for one in self if one.router == router and one.up), None)


def kept(self: MobileSync, now: float, news: News = MobileSync.news) -> MobileUpdate | None:
    update = news(self, now)
    return update and msgspec.structs.replace(update, gone=())


@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [(Neighbours, "best", first), (MobileSync, "news", kept)],
    ids=["not the cheapest connection", "what is gone is not told"],
)
@pytest.mark.parametrize("kind", [RandomNetwork, RandomProtocol])
def test_a_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, kind: type[RandomNetwork | RandomProtocol], owner: type, name: str, fault: object
) -> None:
    monkeypatch.setattr(owner, name, fault)
    with pytest.raises(AssertionError):
        lives(kind)
