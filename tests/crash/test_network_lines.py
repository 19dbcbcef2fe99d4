"""Lines of three under load, of ours and with other makes: each member dies and comes back."""

import signal
from collections.abc import Iterator

import pytest

from tests.support.clients.load import Load
from tests.support.routers.members import DISPATCH, OURS, SKUPPER, Network

# Each connects to the one before it.
LINES = {
    "ours": (OURS, OURS, OURS),
    "around-qdrouterd": (OURS, DISPATCH, OURS),
    "around-skrouterd": (OURS, SKUPPER, OURS),
    "between": (DISPATCH, OURS, SKUPPER),
}
NAMES = ("first", "middle", "last")


@pytest.fixture(scope="module", params=LINES)
def line(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    network = Network(tmp_path_factory.mktemp("line"))
    before: dict[str, int] = {}
    for name, kind in zip(NAMES, LINES[request.param], strict=True):
        network.add(name, kind, before)
        before = {name: 1}
    try:
        network.start()
        yield network
    finally:
        network.end()


def test_each_member_dies_and_comes_back(line: Network) -> None:
    """Whatever was accepted to its sender, in either direction, a receiver has."""
    with Load(line["first"], line["last"], ["balanced.there", "multicast.there"], ["balanced.back"]) as load:
        load.get_on()
        for name in NAMES:
            line[name].end(signal.SIGKILL)
            line[name].start()
            load.get_on()
